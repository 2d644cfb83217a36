"""Leases of partitions: the rules and scripts by which filters and archivers share them out."""
