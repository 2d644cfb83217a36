"""Frames that a probe holds: the ring, their numbers, and the send window of each resource set."""
