"""Captures of a machine's tool output and files, and their replay."""
