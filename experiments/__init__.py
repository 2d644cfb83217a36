"""Benchmarks of the whole pipeline, each a program: ``python -m experiments.NAME --help``.

``experiments.ingest`` measures the flow from emulated probes to readable smoothed state.
Nothing in the product imports this package. Raw results lie in ``experiments/results``.
"""
