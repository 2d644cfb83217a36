"""Emulated hosts and their load: frames as a probe makes them, without a data center."""
