"""Follower of the partitions' raw streams, beside the filter."""
