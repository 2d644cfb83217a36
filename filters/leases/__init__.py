"""Leases of partitions, shared by filters and archivers: rules and scripts."""
