"""Benchmarks of the whole pipeline, each a program: ``python -m experiments.NAME --help``.

``experiments.ingest`` measures the flow from emulated probes to readable smoothed state.
``experiments.scale`` measures how that scales, ``experiments.long_run`` whether memory stays flat and what has
vanished disappears, ``experiments.fuzz`` whether hostile input gets through.
Nothing in the product imports this package. Raw results lie in ``experiments/results``.
"""
