"""Following the raw streams of the partitions, beside the filter."""
