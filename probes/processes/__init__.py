"""Processes of the host: their discovery, and the choice of those to watch."""
