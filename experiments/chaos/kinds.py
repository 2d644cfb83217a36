"""Kind of fault: timing and targets, and how it is dealt, made and healed."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import NamedTuple

from experiments.chaos.installation import Installation

#: Kinds of a group follow one another; groups run side by side. Seconds of peace between two faults of a group. Groups
#: of scenarios (``experiments.chaos.scenarios``) are not among them.
GROUPS: dict[str, tuple[float, float]] = {
    "cluster": (1.0, 5.0),
    "links": (1.0, 6.0),
    "memory": (4.0, 12.0),
    "workers": (1.0, 6.0),
    "generators": (1.0, 6.0),
    "clocks": (3.0, 10.0),
    "archive": (1.0, 6.0),
    "trust": (1.0, 6.0),
}


class Fault(NamedTuple):
    """``target`` numbers a shard, a worker or a generator, by kind; ``size`` is in the kind's own unit: seconds of
    delay or of a clock step, share of lost packets, bits per second, partitions, 1 for a new shard that dies."""

    at: float
    kind: str
    target: int
    seconds: float
    size: float = 0.0

    @property
    def until(self) -> float:
        """Time of its healing."""
        return self.at + self.seconds


Size = Callable[[random.Random], float]
Make = Callable[[Installation, Fault], Iterator[None]]


class Kind(NamedTuple):
    """A kind of fault. ``on`` is its target: ``shard worker generator archiver database service cluster``; it lasts
    from ``shortest`` to ``longest`` seconds, and the target remains disturbed for ``settle`` seconds after healing.
    ``alone``: the target has no other fault meanwhile. ``make`` makes a fault when entered and heals it when left. No
    host can be seen from ``blind_after`` seconds on (0: most can); hosts of a target that is ``gone`` are dead to every
    observer."""

    name: str
    help: str
    make: Callable[[Installation, Fault], AbstractContextManager[None]]
    group: str
    on: str
    shortest: float
    longest: float
    settle: float
    size: Size
    alone: bool
    blind_after: float = 0.0
    gone: bool = False


def kind(
    group: str, on: str, shortest: float, longest: float, settle: float = 0.0,
    size: Size = lambda _dice: 0.0, alone: bool = True, blind_after: float = 0.0, gone: bool = False,
) -> Callable[[Make], Kind]:  # fmt: skip
    """Make a generator function the kind of its name, described by its docstring: the fault is made before its
    ``yield`` and healed after it."""

    def made(make: Make) -> Kind:
        text = " ".join((make.__doc__ or "").split())
        entered = contextlib.contextmanager(make)
        return Kind(make.__name__, text, entered, group, on, shortest, longest, settle, size, alone, blind_after, gone)

    return made


def between(low: float, high: float) -> Size:
    """A random size from ``low`` to ``high``."""
    return lambda dice: round(dice.uniform(low, high), 4)
