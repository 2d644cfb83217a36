"""The filter's step in C: smooths a frame, keeps its decision inputs, and encodes both, in one call.

``native`` chooses it where it could be compiled; ``_step.c`` is the call, ``smoothing.h``, ``inputs.h`` and ``order.h``
the arithmetic (docs/decisions/0018).
"""
