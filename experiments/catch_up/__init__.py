"""An outage of most links of a data center, and what the catching up does to the others: ``experiments.catch_up``."""
