"""Comparison of shardpulse with Prometheus, on ten scripted hosts.

===============  =================================================================================
``tree``         the /proc of one emulated host: counters, processes, one or two VMs
``trees``        the program that keeps the trees of all hosts up to date, ten times a second
``script``       the load: onsets, bursts, changes of place; true states at a moment
``probe``        the probe as shipped, with its /proc and its clock replaced
``answers``      states of hosts in answers of Prometheus and of /v1/hot, and whether they are wrong
``prometheus``   the three Prometheus servers with their rules (``rules/*.yml``) and exporters
``hosts``        processes of each host, and their faults
``faults``       the rows of the table *Truth*
``benefit``      the figures of the table *Benefit*
``tables``       both tables as text
===============  =================================================================================
"""
