"""Host roster commands: ``shardpulse hosts`` and ``shardpulse hosts forget``."""
