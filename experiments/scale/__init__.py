"""Scale table, one file per row, from runs of ``experiments.ingest``."""
