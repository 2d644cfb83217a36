"""The filter worker: takes frames from the partitions that it owns, smooths them, commits state and cursor as one."""
