"""Shards: servers pinned to cores, joined as a Redis Cluster, started, inspected, stopped.

Start at ``launch.start_shards``.
"""
