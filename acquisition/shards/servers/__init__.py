"""Servers of the shards: binary, users, configuration, process, start, status."""
