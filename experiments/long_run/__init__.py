"""Parts of ``experiments.long_run``: what comes and goes, what is recorded, when memory counts as flat."""
