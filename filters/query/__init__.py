"""``shardpulse query``: snapshot, hot hosts and moves as tables, lines or JSON."""
