"""Schedule of faults: a pure function of the seed and the targets.

Faults come in groups that run side by side, each with its own dice, so that groups do not affect each other. Within a
group one fault follows the other, dealt from a shuffled deck of the group's kinds: even a short run meets every kind
that fits into it.

The safety rule. The design promises that nothing is lost as long as outages are shorter than the rings,
that a cluster fails over while a majority of its masters and one synced replica of the lost one are
there, and that a shard which lost its memory is filled again from the rings. So:

- faults that take a master or a replica away follow each other with time to settle between them:
  never two masters at once, never a master while its replica is still copying
  (``lose_shard`` takes both, on purpose, and brings both back);
- nothing else happens to a shard from the moment it is disturbed until it has settled;
- slots move only while all shards are well;
- one worker and one generator at most is away at a time by their own groups, and no outage is longer than
  ``_LONGEST``, a small part of the ring.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from experiments.chaos.faults import KINDS
from experiments.chaos.kinds import GROUPS, Fault, Kind
from experiments.chaos.options import Scene
from experiments.chaos.scenarios import SCENARIOS

_FIRST = 3.0  #: seconds of peace at the beginning
_LONGEST = 60.0
_ATTEMPTS = 20


def make(seed: int, seconds: float, scene: Scene, kinds: Sequence[str] = ()) -> list[Fault]:
    """The faults of a run in order of time, all healed within ``seconds``; no ``kinds``: of all kinds of the scene's
    scenario, or those of no scenario."""
    placed: list[Fault] = []
    groups = {scene.scenario: SCENARIOS[scene.scenario].gaps} if scene.scenario else GROUPS
    for name, gaps in groups.items():
        chosen = [
            kind
            for kind in KINDS.values()
            if kind.group == name and (not kinds or kind.name in kinds) and _count(kind, scene)
        ]
        if chosen:
            placed += _group(random.Random(f"chaos {seed} {name}"), seconds, scene, gaps, chosen, placed)
    return sorted(placed)


def conflict(one: Fault, other: Fault) -> bool:
    """Whether two faults would disturb the same target at the same time."""
    first, second = KINDS[one.kind], KINDS[other.kind]
    if not (first.alone and second.alone):
        return False
    if "cluster" in (first.on, second.on):
        if not {first.on, second.on} <= {"cluster", "shard"}:
            return False
    elif first.on != second.on or one.target != other.target:
        return False
    return one.at < other.until + second.settle and other.at < one.until + first.settle


def _group(
    dice: random.Random,
    seconds: float,
    scene: Scene,
    gaps: tuple[float, float],
    kinds: Sequence[Kind],
    placed: Sequence[Fault],
) -> list[Fault]:
    found: list[Fault] = []
    deck: list[Kind] = []
    now = _FIRST + dice.uniform(0.0, gaps[1])
    while now < seconds:
        if not deck:
            deck = list(kinds)
            dice.shuffle(deck)
        fault = _first_fitting(dice, deck, now, scene, [*placed, *found])
        if fault is not None and fault.until <= seconds:
            kind = KINDS[fault.kind]
            deck.remove(kind)
            found.append(fault)
            now = fault.until + kind.settle
        now += dice.uniform(*gaps)
    return found


def _first_fitting(
    dice: random.Random, deck: Sequence[Kind], now: float, scene: Scene, others: Sequence[Fault]
) -> Fault | None:
    """A fault of the first kind of the deck that fits now; kinds that do not fit stay in the deck."""
    fits = (_fitting(dice, kind, now, scene, others) for kind in deck)
    return next((fault for fault in fits if fault is not None), None)


def _fitting(dice: random.Random, kind: Kind, now: float, scene: Scene, others: Sequence[Fault]) -> Fault | None:
    """A fault of this kind without a conflict; None without a target."""
    for _ in range(_ATTEMPTS):
        length = min(_LONGEST, dice.uniform(kind.shortest, kind.longest))
        fault = Fault(round(now, 3), kind.name, _target(dice, kind, scene), round(length, 3), kind.size(dice))
        if not any(conflict(fault, other) for other in others):
            return fault
    return None


def _target(dice: random.Random, kind: Kind, scene: Scene) -> int:
    return dice.randrange(_count(kind, scene))


def _count(kind: Kind, scene: Scene) -> int:
    """Number of targets of this kind."""
    counts = {
        "shard": scene.shards, "worker": scene.workers, "generator": scene.generators, "cluster": scene.shards,
        "archiver": scene.archivers, "database": min(1, scene.archivers),
        "service": scene.services,
    }  # fmt: skip
    return counts[kind.on]
