"""Failover cost: masters with replicas in network namespaces.

The product's writers and filter run on them.

``python -m experiments.failover`` measures; tests/experiments/test_failover.py uses the same parts.
"""
