"""Harness of benchmarks: pipeline, measured run, balance of books, outcome."""
