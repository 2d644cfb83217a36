"""Still clock for readers: what a test has written keeps its age."""

from __future__ import annotations

import time
from itertools import count

import pytest

from acquisition.snapshot import SnapshotReader


def this_tick(monkeypatch: pytest.MonkeyPatch) -> int:
    """The number of this second's tick, which ends for no reader that this process makes from now on: it is the newest
    that ``latest`` finds, and the one before it is the ``coherent`` one."""
    now, moments = int(time.time()), count(0.9, 1e-5)
    grace, down_after, _ = SnapshotReader.__init__.__defaults__ or ()
    monkeypatch.setattr(SnapshotReader.__init__, "__defaults__", (grace, down_after, lambda: now + next(moments)))
    return now
