"""Advancing the states of many frames at once, with numpy or the step in C."""
