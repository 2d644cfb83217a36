"""Subcommands of ``shardpulse shards``."""
