"""A partition in a filter worker: its states, its cursor, and the commands of its commit."""
