"""The page: static files that ``shardpulse serve`` answers with at ``/``. Whatever lies here is served."""
