"""Simulated time: hosts whose guests wait, and the filter step in memory."""
