"""Query service: snapshots, hot hosts, moves and a live stream over HTTP.

Sub-rooms import one way: ``http`` implements the protocol, ``ticks`` reads tick after tick and keeps the answers
made from it, ``interface`` defines resources, ``resources`` has one file for each. ``application`` answers
requests, ``service`` assembles the parts. Start at ``application``; ``command`` is ``shardpulse serve``.
"""
