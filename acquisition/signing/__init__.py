"""Signing secrets of frames: their files and the command that creates them."""
