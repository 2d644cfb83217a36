"""Filter worker: smooths frames of its partitions, commits state and cursor.

Both in one transaction.
"""
