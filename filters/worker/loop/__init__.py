"""Loop of a filter worker: its partitions, and the times of reads and commits."""
