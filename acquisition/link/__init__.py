"""Shard connections: a lean client, the slot map and shard discovery."""
