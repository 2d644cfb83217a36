"""The query service: snapshots, hot hosts, moves and a live stream over HTTP, for schedulers and for eyes.

Data flows one way: ``reading`` makes one ``edition`` per tick in a thread of its own, ``documents`` are
what an edition says, ``application`` answers requests with it, ``stream`` tells everyone who listens.
Start at ``application``; ``command`` is ``shardpulse serve``.
"""
