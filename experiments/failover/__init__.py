"""What a failover costs: masters with replicas in network namespaces, the product's writers and filter on them.

``python -m experiments.failover`` measures; tests/experiments/test_failover.py uses the same parts.
"""
