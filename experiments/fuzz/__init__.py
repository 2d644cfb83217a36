"""Fuzzing with hostile input: mutations, oracles and guards.

Every case is a function of (seed, kind, number): each can be repeated alone.
"""
