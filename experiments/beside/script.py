"""Script of the load that all systems see, with the truth over time (pure).

A VM uses a number of cores; its host is loaded by it and by little else, so that a VM of 1.8 cores makes a host of two
busy (0.95), and one of 0.2 leaves it idle (0.15). Times are seconds since 1970, or of a part of the run if stated.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

IDLE_CORES, CALM_CORES, BUSY_CORES, BURST_CORES = 0.2, 1.1, 1.8, 1.9  #: host at 0.15, 0.6, 0.95, 1.0
BUSY, IDLE, DEAD = "busy", "idle", "dead"
_BUSY_FROM = 1.0  #: cores from which a VM, and with it its host, counts as busy in the part *Truth*
_EARLY, _EARLY_HOLD, _LATE = (0.05, 0.1), 0.55, (0.33, 0.43)  #: parts of the part *Benefit*
_BURST_EVERY, _BURST_SECONDS = 60.0, (2.0, 6.0)


class Change(NamedTuple):
    """From ``at`` on a VM uses ``cores``."""

    at: float
    vm: int
    cores: float


class Move(NamedTuple):
    """At ``at`` a VM continues on ``destination``, in a process already waiting there, and its process on ``source``
    ends."""

    at: float
    vm: int
    source: int
    destination: int


class Plan(NamedTuple):
    """Plan of the events to come."""

    changes: tuple[Change, ...]
    moves: tuple[Move, ...] = ()

    @classmethod
    def of(cls, document: Sequence[Any]) -> Self:
        """From JSON."""
        changes, moves = document
        return cls(tuple(Change(*each) for each in changes), tuple(Move(*each) for each in moves))


class Overload(NamedTuple):
    """A host is overloaded from ``onset`` to ``end``."""

    host: int
    onset: float
    end: float


class Stage:
    """Places of VMs and their use of cores, by the plans taken so far."""

    def __init__(self, hosts: int) -> None:
        self._changes: list[list[Change]] = [[Change(0.0, vm, CALM_CORES)] for vm in range(hosts)]
        self._places: list[list[tuple[float, int]]] = [[(0.0, vm)] for vm in range(hosts)]
        self._moves: list[Move] = []

    def take(self, plan: Plan) -> None:
        """Add the events of a plan."""
        for change in sorted(plan.changes):
            self._changes[change.vm].append(change)
        for move in plan.moves:
            self._places[move.vm].append((move.at, move.destination))
            self._moves.append(move)

    def due(self, now: float) -> list[Move]:
        """Moves due since the last call."""
        found = [move for move in self._moves if move.at <= now]
        self._moves = [move for move in self._moves if move.at > now]
        return found

    def cores_on(self, host: int, start: float, end: float) -> dict[str, float]:
        """Average use of the VMs of a host from ``start`` to ``end`` in cores, by name."""
        return {
            f"vm-{vm}": self._mean(vm, start, end)
            for vm in range(len(self._places))
            if self.place(vm, end) == host
        }  # fmt: skip

    def place(self, vm: int, at: float) -> int:
        """The host of a VM."""
        return next(host for since, host in reversed(self._places[vm]) if since <= at)

    def cores(self, vm: int, at: float) -> float:
        """Cores that a VM uses."""
        return next(change.cores for change in reversed(self._changes[vm]) if change.at <= at)

    def vm_is(self, vm: int, at: float) -> str:
        """Whether a VM is busy or idle."""
        return BUSY if self.cores(vm, at) >= _BUSY_FROM else IDLE

    def host_is(self, host: int, at: float) -> str:
        """Whether a host is busy or idle."""
        used = sum(self.cores(vm, at) for vm in range(len(self._places)) if self.place(vm, at) == host)
        return BUSY if used >= _BUSY_FROM else IDLE

    def _mean(self, vm: int, start: float, end: float) -> float:
        edges = [start, *(change.at for change in self._changes[vm] if start < change.at < end), end]
        if end <= start:
            return self.cores(vm, end)
        pairs = pairwise(edges)
        return sum(self.cores(vm, first) * (last - first) for first, last in pairs) / (end - start)


def benefit(hosts: int, seconds: float, seed: int) -> tuple[Plan, list[Overload]]:
    """The plan of the part *Benefit*, in seconds of that part, and its overloads: one of each host.

    The second half of the hosts is overloaded early, the first half from later on to the end. Otherwise only bursts of
    two to six seconds reach 1.0, about one a minute, which call for no migration.
    """
    chance = random.Random(f"beside {seed}")
    changes, overloads = [], []
    for host in range(hosts):
        early = host >= hosts // 2
        onset = chance.uniform(*(_EARLY if early else _LATE)) * seconds
        end = onset + _EARLY_HOLD * seconds if early else seconds
        overloads.append(Overload(host, onset, end))
        changes += [Change(0.0, host, CALM_CORES), Change(onset, host, BUSY_CORES)]
        changes += [Change(end, host, CALM_CORES)] if early else []
        at = chance.uniform(0.0, _BURST_EVERY)
        while at < seconds:
            length = chance.uniform(*_BURST_SECONDS)
            if at + length < onset - _BURST_SECONDS[1] or at > end + _BURST_SECONDS[1]:
                changes += [Change(at, host, BURST_CORES), Change(at + length, host, CALM_CORES)]
            at += chance.uniform(0.5, 1.5) * _BURST_EVERY
    return Plan(tuple(sorted(changes))), overloads


def halves(hosts: int, at: float) -> Plan:
    """The beginning of the part *Truth*: the first half of the hosts is busy, the second idle."""
    return Plan(tuple(Change(at, vm, BUSY_CORES if vm < hosts // 2 else IDLE_CORES) for vm in range(hosts)))


def swapped(stage: Stage, pair: Iterable[int], at: float) -> Plan:
    """The VMs of a pair change roles: the busy one becomes idle, the idle one busy."""
    return Plan(tuple(Change(at, vm, IDLE_CORES if stage.vm_is(vm, at) == BUSY else BUSY_CORES) for vm in pair))


def shifted(plan: Plan, by: float) -> Plan:
    """A plan in seconds of a part that begins at ``by``."""
    return Plan(
        tuple(change._replace(at=change.at + by) for change in plan.changes),
        tuple(move._replace(at=move.at + by) for move in plan.moves),
    )
