"""VM watching cost: see ``experiments.vms.__main__``."""
