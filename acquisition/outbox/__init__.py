"""Sending side: numbered frames in a ring, sent in order by the go-back rule.

The probe imports it: it stays light.
"""
