"""Figures table with regression checks.

``python -m experiments.figures`` measures it.

``table`` declares the rows; ``references`` measure this machine at the same time; ``measure`` runs the programs of the
rows; ``judge`` compares with the committed figures, kept by ``committed``; ``pages`` writes the documents' tables.
"""
