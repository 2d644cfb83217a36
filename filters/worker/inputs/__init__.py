"""Decision inputs computed at every tick for the configured metrics.

``plan`` selects the columns, ``order`` and ``derived`` are arithmetic (pure), ``state`` holds the data of one (host,
resource set), ``stage`` advances many at once and leaves records to their commits,
``restoring`` reads everything back (docs/decisions/0019).
"""
