"""Step in C: smooths a frame, keeps decision inputs, encodes both in one call.

``native`` selects it if it could be compiled; ``_step.c`` is the call, ``smoothing.h``, ``inputs.h`` and ``order.h``
the arithmetic (docs/decisions/0018).
"""
