"""Query service: snapshots, hot hosts, moves and a live stream over HTTP.

Sub-rooms import one way: ``http`` speaks the protocol, ``ticks`` reads one tick after the other and keeps the answers
made from it, ``interface`` says what a resource is, ``resources`` holds one file for each. ``application`` answers
requests, ``service`` puts the parts together. Start at ``application``; ``command`` is ``shardpulse serve``.
"""
