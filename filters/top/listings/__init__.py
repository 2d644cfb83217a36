"""Listings: rows of the screen, made from a snapshot, with their histories."""
