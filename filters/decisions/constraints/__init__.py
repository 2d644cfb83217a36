"""Constraints of planned moves: capacity, labels, migrations under way."""
