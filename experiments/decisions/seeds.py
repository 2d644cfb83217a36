"""Which random numbers parameters may have seen. Training and test never share a seed; all days of traces and
every recording are tests."""

from __future__ import annotations

TRAINING: tuple[int, ...] = tuple(range(1, 11))
TEST: tuple[int, ...] = tuple(range(201, 211))
