"""Agent of a host: the loop over its monitor modules."""
