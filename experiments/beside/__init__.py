"""Comparison of shardpulse with Prometheus, on ten scripted hosts.

===============  =================================================================================
``tree``         the /proc of one emulated host: counters, processes, one or two VMs
``trees``        the program that keeps the trees of all hosts up to date, ten times a second
``script``       the load: onsets, bursts, changes of place; what is true at a moment
``probe``        the probe as shipped, with its /proc and its clock replaced
``answers``      what an answer of Prometheus or of /v1/hot calls a host, and whether that is wrong
``prometheus``   the three Prometheus servers with their rules (``rules/*.yml``) and exporters
``hosts``        what runs for each host, and how it is broken
``faults``       the rows of the table *Truth*
``benefit``      the figures of the table *Benefit*
``tables``       both tables as text
===============  =================================================================================
"""
