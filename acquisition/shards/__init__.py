"""Shards: redis-servers pinned to cores, joined as a Redis Cluster, started, inspected, stopped.

Start at ``launch.start_shards``. Nothing is imported here: ``lifeline`` serves a Python without any packages.
"""
