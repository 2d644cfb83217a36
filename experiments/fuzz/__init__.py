"""Fuzzing with hostile input: mutations, oracles and guards.

Every case is a function of (seed, kind, number): any one can be repeated alone.
"""
