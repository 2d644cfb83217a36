"""Truth about overload in two ways: by level, and by harm to guests.

By level: the work of a host averages 0.9 of its cores or more over 10 s. By harm: over 10 s, its guests wait for 5% of
the time in which they want to run. An alarm is true if such 10 s include its second, or begin within the 10 s after it;
otherwise it is false.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from experiments.simulation.arrays import Bools, Doubles

LEVEL, HARM = 0.9, 0.05
WINDOW = AHEAD = 10
KINDS = ("level", "harm")
_APART = 10  #: seconds of calm after which an overload is a new one


class Truth(NamedTuple):
    """``bad`` (T, H): seconds that belong to 10 s of overload. ``near`` (T, H): seconds in which an alarm is true."""

    bad: Bools
    near: Bools


def by_level(work: Doubles) -> Truth:
    """Truth from the runnable work (T, H) as a ratio of the cores."""
    return _truth(_rolling(work) >= LEVEL * WINDOW)


def by_harm(delay: Doubles, run: Doubles) -> Truth:
    """Truth from the waiting and running (T, H) of all guests in core-seconds."""
    waiting, wanted = _rolling(delay), _rolling(delay + run)
    return _truth((waiting >= HARM * wanted) & (wanted > 0.0))


def _rolling(values: Doubles) -> Doubles:
    """Sums (T - 9, H) of the 10 s that begin at each second."""
    total = np.vstack([np.zeros((1, values.shape[1])), np.cumsum(values, axis=0, dtype=np.float64)])
    return total[WINDOW:] - total[:-WINDOW]


def _truth(begins: Bools) -> Truth:
    """Truth from the seconds (T - 9, H) at which such 10 s begin."""
    seconds = len(begins) + WINDOW - 1
    bad, near = (np.zeros((seconds, begins.shape[1]), np.bool_) for _ in range(2))
    for later in range(WINDOW):
        bad[later : later + len(begins)] |= begins
    near |= bad
    for earlier in range(1, AHEAD + 1):
        near[: seconds - earlier] |= bad[earlier:]
    return Truth(bad, near)


class Onset(NamedTuple):
    """An overload of a host from ``first`` to the last second, ``after`` exclusive."""

    host: int
    first: int
    after: int


def onsets(truth: Truth) -> list[Onset]:
    """Overloads of all hosts; those less than 10 s apart are one."""
    found: list[Onset] = []
    for host in range(truth.bad.shape[1]):
        edges = np.flatnonzero(np.diff(np.concatenate(([0], truth.bad[:, host].astype(np.int8), [0]))))
        for first, after in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            if found and found[-1].host == host and first - found[-1].after < _APART:
                found[-1] = found[-1]._replace(after=after)
            else:
                found.append(Onset(host, first, after))
    return found
