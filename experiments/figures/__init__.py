"""The table of figures that guards itself: ``python -m experiments.figures``.

``table`` declares the rows; ``references`` measure what this machine can at the same time; ``measure`` runs the
programs of the rows; ``judge`` compares with what is committed, which ``committed`` keeps; ``pages`` writes the
documents' tables.
"""
