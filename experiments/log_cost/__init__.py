"""Cost of log statements: see ``experiments.log_cost.__main__``."""
