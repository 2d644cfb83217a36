"""Reconciliation: what all probes made against what became of it (the books)."""
