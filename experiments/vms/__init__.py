"""What it costs to watch virtual machines; see ``__main__``."""
