"""Which fault when, for how long, on whom: a pure function of the seed and of what there is to break.

Faults come in lanes that run side by side, each with its own dice, so that what one lane does changes
nothing in another. Within a lane one fault follows the other, dealt from a shuffled deck of
the lane's kinds: even a short run meets every kind that fits into it.

The safety rule. The design promises that nothing is lost as long as outages are shorter than the rings,
that a cluster fails over while a majority of its masters and one synced replica of the lost one are
there, and that a shard which lost its memory is filled again from the rings. So:

- faults that take a master or a replica away follow each other with time to settle between them:
  never two masters at once, never a master while its replica is still copying
  (``lose_shard`` takes both, on purpose, and brings both back);
- nothing else happens to a shard from the moment it is disturbed until it has settled;
- slots move only while all shards are well;
- one worker and one generator at most is away at a time by their own lanes, and no outage is longer than
  ``_LONGEST``, a small part of the ring.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

_FIRST = 3.0  #: seconds of peace at the beginning
_LONGEST = 30.0
_ATTEMPTS = 20


class Scene(NamedTuple):
    """What there is: shards with a master and a replica each, filter workers, generators."""

    shards: int
    workers: int
    generators: int


class Fault(NamedTuple):
    """``target`` numbers a shard, a worker or a generator, by kind; ``size`` is in the kind's own unit:
    seconds of delay or of a clock's step, share of lost packets, bits per second, partitions, 1 for a new
    shard that dies."""

    at: float
    kind: str
    target: int
    seconds: float
    size: float = 0.0

    @property
    def until(self) -> float:
        """When it is healed."""
        return self.at + self.seconds


class Kind(NamedTuple):
    """How faults of one kind are dealt. ``on`` is what they happen to: ``shard worker generator cluster``;
    ``settle`` seconds after the healing the target is still disturbed."""

    name: str
    on: str
    shortest: float
    longest: float
    settle: float = 0.0
    size: Callable[[random.Random], float] = lambda _dice: 0.0


def _between(low: float, high: float) -> Callable[[random.Random], float]:
    return lambda dice: round(dice.uniform(low, high), 4)


def _partitions(dice: random.Random) -> float:
    return float(dice.randint(2, 10))


def _step(dice: random.Random) -> float:
    """Half a second to an hour, either way, small steps as often as large ones."""
    return round(dice.choice((-1, 1)) * 10 ** dice.uniform(-0.3, 3.55), 3)


LANES: dict[str, tuple[tuple[float, float], tuple[Kind, ...]]] = {
    "cluster": (
        (1.0, 5.0),
        (
            Kind("kill_master", "shard", 6.0, 10.0, 4.0),
            Kind("cut_master", "shard", 6.0, 12.0, 4.0),
            Kind("isolate_master", "cluster", 5.0, 9.0, 4.0),
            Kind("freeze_master", "shard", 1.0, 9.0, 4.0),
            Kind("kill_replica", "shard", 3.0, 8.0, 4.0),
            Kind("cut_replica", "shard", 3.0, 8.0, 4.0),
            Kind("lose_shard", "shard", 2.0, 6.0, 6.0),
            Kind("reshard", "cluster", 4.0, 12.0, 2.0, _partitions),
            Kind("grow", "cluster", 6.0, 12.0, 4.0, lambda dice: float(dice.randint(0, 1))),
        ),
    ),
    "links": (
        (1.0, 6.0),
        (
            Kind("delay_shard", "shard", 3.0, 10.0, size=_between(0.002, 0.06)),
            Kind("loss_shard", "shard", 3.0, 10.0, size=_between(0.002, 0.05)),
            Kind("rate_shard", "shard", 3.0, 10.0, size=_between(4e6, 4e7)),
            Kind("delay_worker", "worker", 3.0, 10.0, size=_between(0.002, 0.06)),
            Kind("loss_worker", "worker", 3.0, 10.0, size=_between(0.002, 0.05)),
            Kind("delay_generator", "generator", 3.0, 10.0, size=_between(0.002, 0.06)),
            Kind("loss_generator", "generator", 3.0, 10.0, size=_between(0.002, 0.05)),
        ),
    ),
    "memory": (
        (4.0, 12.0),
        (Kind("fill_memory", "shard", 3.0, 7.0, 1.0), Kind("limit_memory", "shard", 3.0, 7.0, 1.0)),
    ),
    "workers": (
        (1.0, 6.0),
        (
            Kind("kill_worker", "worker", 0.5, 5.0, 1.0),
            Kind("freeze_worker", "worker", 1.0, 15.0, 1.0),
            Kind("cut_worker", "worker", 2.0, 10.0, 1.0),
        ),
    ),
    "generators": (
        (1.0, 6.0),
        (
            Kind("kill_generator", "generator", 0.2, 5.0, 1.0),
            Kind("freeze_generator", "generator", 0.5, 8.0, 1.0),
            Kind("cut_generator", "generator", 2.0, 15.0, 1.0),
        ),
    ),
    "clocks": ((3.0, 10.0), (Kind("step_clock", "generator", 0.0, 0.0, size=_step),)),
}

KINDS: dict[str, Kind] = {kind.name: kind for _, kinds in LANES.values() for kind in kinds}
_FREE = frozenset({"step_clock"})  #: harmless to whatever else happens to its target


def make(seed: int, seconds: float, scene: Scene, kinds: Sequence[str] = ()) -> list[Fault]:
    """The faults of a run in order of time, all healed within ``seconds``; ``kinds`` none: of all kinds."""
    placed: list[Fault] = []
    for name, (gaps, all_kinds) in LANES.items():
        chosen = [kind for kind in all_kinds if not kinds or kind.name in kinds]
        if chosen:
            placed += _lane(random.Random(f"chaos {seed} {name}"), seconds, scene, gaps, chosen, placed)
    return sorted(placed)


def conflict(one: Fault, other: Fault) -> bool:
    """Whether the two would disturb the same target at the same time."""
    first, second = KINDS[one.kind], KINDS[other.kind]
    if _FREE & {one.kind, other.kind}:
        return False
    if "cluster" in (first.on, second.on):
        if not {first.on, second.on} <= {"cluster", "shard"}:
            return False
    elif first.on != second.on or one.target != other.target:
        return False
    return one.at < other.until + second.settle and other.at < one.until + first.settle


def _lane(
    dice: random.Random,
    seconds: float,
    scene: Scene,
    gaps: tuple[float, float],
    kinds: Sequence[Kind],
    placed: Sequence[Fault],
) -> list[Fault]:
    lane: list[Fault] = []
    deck: list[Kind] = []
    now = _FIRST + dice.uniform(0.0, gaps[1])
    while now < seconds:
        if not deck:
            deck = list(kinds)
            dice.shuffle(deck)
        fault = _first_fitting(dice, deck, now, scene, [*placed, *lane])
        if fault is not None and fault.until <= seconds:
            kind = KINDS[fault.kind]
            deck.remove(kind)
            lane.append(fault)
            now = fault.until + kind.settle
        now += dice.uniform(*gaps)
    return lane


def _first_fitting(
    dice: random.Random, deck: Sequence[Kind], now: float, scene: Scene, others: Sequence[Fault]
) -> Fault | None:
    """A fault of the first kind of the deck for which there is room now; what does not fit stays in the deck."""
    fits = (_fitting(dice, kind, now, scene, others) for kind in deck)
    return next((fault for fault in fits if fault is not None), None)


def _fitting(dice: random.Random, kind: Kind, now: float, scene: Scene, others: Sequence[Fault]) -> Fault | None:
    """A fault of this kind that is in nobody's way, or None when no target was found."""
    for _ in range(_ATTEMPTS):
        length = min(_LONGEST, dice.uniform(kind.shortest, kind.longest))
        fault = Fault(round(now, 3), kind.name, _target(dice, kind, scene), round(length, 3), kind.size(dice))
        if not any(conflict(fault, other) for other in others):
            return fault
    return None


def _target(dice: random.Random, kind: Kind, scene: Scene) -> int:
    counts = {"shard": scene.shards, "worker": scene.workers, "generator": scene.generators, "cluster": scene.shards}
    return dice.randrange(counts[kind.on])
