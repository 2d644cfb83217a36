"""The process on every host: the loop over its monitor modules."""
