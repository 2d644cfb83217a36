"""What travels and what lies in the shards: byte layouts, and the name of every key.

All but ``smoothed`` (numpy) are in the probe's import closure.
"""
