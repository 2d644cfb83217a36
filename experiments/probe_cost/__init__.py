"""What the probe costs its host beside what the same reads cost without it: ``experiments.probe_cost``."""
