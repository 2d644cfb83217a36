"""Figures as text: quantities with units, states, and sparklines."""
