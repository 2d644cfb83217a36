"""Figures of the host and of its processes from /proc and /sys, together in C."""
