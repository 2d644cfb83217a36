"""Visibility: whether a host is down, or the pipeline does not show it."""
