"""``python -m experiments.overload``: more is offered than can be taken; what happens to freshness and to whom.

``slow_filter`` is the product's filter on a machine of a stated capacity, ``generator`` the hosts: some talk
ten times as much while the load is high; ``observer`` reads what schedulers could read; ``verdict`` judges.
"""
