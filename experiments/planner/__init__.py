"""Planner run: the shipped planner on a small data center, move by move."""
