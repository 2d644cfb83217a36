"""Pipeline health at a glance: ``shardpulse status``.

``health.read`` puts together what shards, filter workers and the books say, ``verdict`` judges it,
``text`` and ``document`` show it.
"""
