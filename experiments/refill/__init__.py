"""``python -m experiments.refill``: a shard comes back empty; how soon is the smoothed state what it was?

``generator`` are the hosts, each with a full ring; ``measure`` kills the shard and compares states.
"""
