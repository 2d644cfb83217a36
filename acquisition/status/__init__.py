"""Pipeline health at a glance: ``shardpulse status``.

``health.read`` combines data from shards, filter workers and the books, ``verdict`` judges them,
``text`` and ``document`` show them.
"""
