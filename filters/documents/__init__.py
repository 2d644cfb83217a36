"""What answers are made of: typed documents of one tick, pure functions throughout.

The types are the schema of the interface description as well, so that both cannot disagree.
"""
