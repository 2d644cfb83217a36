"""What the query service bears while the pipeline runs: ``python -m experiments.serve_load``."""
