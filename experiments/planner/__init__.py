"""``python -m experiments.planner``: what the shipped planner does to a small data center, move by move."""
