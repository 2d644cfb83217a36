"""The query service: snapshots, hot hosts, moves and a live stream over HTTP, for schedulers and for eyes.

Data flows one way: ``reading_thread`` makes one ``tick_cache`` per tick in a thread of its own, ``filters.documents``
say what it holds, ``application`` answers requests with it, ``stream`` sends to all listeners.
Start at ``application``; ``command`` is ``shardpulse serve``.
"""
