"""Data model: metrics, resource sets, identities, validity codes and ticks.

The probe imports it: it stays light.
"""
