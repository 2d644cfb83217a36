"""Decision inputs computed at every tick for the configured metrics.

``plan`` says which columns, ``order`` and ``derived`` are arithmetic (pure), ``state`` is what one (host,
resource set) keeps, ``stage`` advances many at once and leaves records to their commits,
``restoring`` reads everything back (docs/decisions/0019).
"""
