"""Probe cost on its host, beside the same reads without it."""
