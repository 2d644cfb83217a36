"""What the sensors of hosts show over time, beside the truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.decisions.load import Bools, Floats


class Series(NamedTuple):
    """``used`` (T, H) as measured, ``valid`` (T, H), the sustained ``level`` (T, H), and ``before`` (B, H)."""

    name: str
    used: Floats
    valid: Bools
    level: Floats
    before: Floats

    @property
    def hosts(self) -> int:
        """How many hosts there are."""
        return int(self.used.shape[1])

    @property
    def ticks(self) -> int:
        """Length in seconds."""
        return int(self.used.shape[0])


def joined(parts: Sequence[Series]) -> Series:
    """Several runs of one length beside each other, as if their hosts were of one data center."""
    first = parts[0]
    return Series(
        first.name,
        np.hstack([part.used for part in parts]),
        np.hstack([part.valid for part in parts]),
        np.hstack([part.level for part in parts]),
        np.hstack([part.before for part in parts]),
    )
