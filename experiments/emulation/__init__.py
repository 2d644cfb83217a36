"""Emulated hosts and their load: a probe's frames without a data center."""
