"""What the service answers with: typed documents made from one edition, pure functions throughout.

The types are the schema of the interface description as well, so that both cannot disagree.
"""
