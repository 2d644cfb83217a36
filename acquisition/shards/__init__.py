"""Shards: servers pinned to cores, joined, grown, moved, mended, stopped.

``commands`` use ``servers``, and ``servers`` use ``topology``. Start at ``servers.launch.start_shards``.
"""
