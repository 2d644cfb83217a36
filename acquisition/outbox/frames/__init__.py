"""Frames held by a probe: ring, numbering, and the send window of each set."""
