"""Partition in a filter worker: states, cursor and commit."""
