"""See ``experiments.log_cost.__main__``."""
