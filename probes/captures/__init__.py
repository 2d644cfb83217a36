"""Captures of what a machine prints, and their replay."""
