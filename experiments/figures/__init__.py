"""Figures table with regression checks.

``python -m experiments.figures`` measures it.

``table`` declares the rows; ``references`` measure what this machine can at the same time; ``measure`` runs the
programs of the rows; ``judge`` compares with what is committed, which ``committed`` keeps; ``pages`` writes the
documents' tables.
"""
