"""Secrets with which frames are signed: their files, and the command that makes them."""
