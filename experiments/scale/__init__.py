"""Parts of ``experiments.scale``: one file per row of its table, each made of runs of ``experiments.ingest``."""
