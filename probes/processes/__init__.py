"""Processes of the host: which there are, and which of them to watch."""
