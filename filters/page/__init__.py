"""Page: static files served by ``shardpulse serve`` at ``/``.

Whatever lies here is served.
"""
