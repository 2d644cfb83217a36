"""Which random numbers parameters may have seen. Training and test never share a seed; all days of traces and
every recording are tests."""

from __future__ import annotations

TRAINING: tuple[int, ...] = tuple(range(1, 11))
#: Noise that the default rule is trained on beside: of the quiet settings one in a thousand host-hours is chance.
MORE_NOISE: tuple[int, ...] = tuple(range(11, 41))
TEST: tuple[int, ...] = tuple(range(201, 211))
