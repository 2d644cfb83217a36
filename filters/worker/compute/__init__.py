"""Computation of many frames' states, with numpy or the step in C."""
