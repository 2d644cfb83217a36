"""Bytes that travel or lie in the shards, and the name of every key.

All but those of ``records`` that need numpy are light enough for a probe to import.
"""
