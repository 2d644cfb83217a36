"""Loop of a filter worker: its partitions, and when they are read and committed."""
