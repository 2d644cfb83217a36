"""Documents: typed answers about one tick, built by pure functions.

The types also define the schema of the interface description, so the two cannot disagree.
"""
