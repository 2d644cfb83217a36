"""Readings: positions, records and names of all hosts, and verdicts on records."""
