"""What rows of the archive cost, its disk, and dropping it: ``experiments.archive_cost``."""
