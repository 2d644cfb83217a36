"""Figures as text: quantities with units, and sparklines."""
