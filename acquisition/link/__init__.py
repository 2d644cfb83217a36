"""Talking to shards: one lean connection, the map of slots, where the shards are."""
