"""The loop of a filter worker: which partitions it has, and when each is read and committed."""
