"""Onset delay: from the onset of a step to the answer of ``/v1/hot``."""
