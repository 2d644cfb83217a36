"""Bytes sent or stored in the shards, and the name of every key.

All modules except those of ``records`` that need numpy are light enough for a probe to import.
"""
