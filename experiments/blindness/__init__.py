"""Is a live host ever called down, or blindness calm? Parts of a real pipeline are killed, frozen and cut, and whatever
reads it is asked all the time.

``python -m experiments.blindness`` counts; tests/experiments/test_blindness.py asks the same of a small pipeline.
"""
