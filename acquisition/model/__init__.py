"""The vocabulary: metrics and resource sets, identities, validity codes, ticks. Light: the probe imports it."""
