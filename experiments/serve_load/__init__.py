"""Service load while the pipeline runs: ``python -m experiments.serve_load``."""
