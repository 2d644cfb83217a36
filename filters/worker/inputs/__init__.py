"""Decision inputs: what rules ask beside the moving average, computed at every tick for configured metrics.

``plan`` says which columns, ``order`` and ``derived`` are arithmetic (pure), ``state`` is what one (host,
resource set) keeps, ``stage`` advances many at once and leaves records to their commits,
``restoring`` reads everything back (docs/decisions/0019).
"""
