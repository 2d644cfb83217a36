"""Page: static files served by ``shardpulse serve`` at ``/``.

Every file here is served.
"""
