"""Shards: redis-servers pinned to cores, joined as a Redis Cluster, started, inspected, stopped."""

from acquisition.shards.launch import Shards, start_shards

__all__ = ["Shards", "start_shards"]
