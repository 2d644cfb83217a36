"""Documents: typed answers about one tick, built by pure functions.

The types are the schema of the interface description as well, so that both cannot disagree.
"""
