"""Batch under construction: closed minutes of resource sets, and events."""

from __future__ import annotations

from collections import Counter
from typing import Any

from acquisition.model.identity import own_name
from filters.archive.minutes.episodes import MOST_OPENED, Invalid, Told
from filters.archive.minutes.resource_set import ResourceSet
from filters.archive.minutes.values import MINUTE, Advance, Batch, Event, HostRow

_KEPT = 3600.0  #: seconds for which a vanished VM is remembered: longer than any migration
_MOST = 10_000  #: remembered vanished VMs; beyond that the one that vanished first is dropped earlier


class Whereabouts:
    """Last known host of each VM, to detect a move when it appears elsewhere.

    Shared by all partitions; seconds are those of minutes, which come roughly in order.
    """

    def __init__(self) -> None:
        self._hosts: dict[str, int] = {}
        self._gone: dict[str, float] = {}  #: time of vanishing, the oldest first

    def __len__(self) -> int:
        return len(self._hosts)

    def appears(self, stable: str, host: int, now: float) -> int | None:
        """Record a VM on ``host``; returns its previous host if it was on another one."""
        self._forget(now)
        self._gone.pop(stable, None)
        before = self._hosts.get(stable, host)
        self._hosts[stable] = host
        return before if before != host else None

    def vanishes(self, stable: str, host: int, now: float) -> None:
        """Record that the VM has left ``host``."""
        self._forget(now)
        if self._hosts.get(stable) == host:
            self._gone.pop(stable, None)
            self._gone[stable] = now

    def _forget(self, now: float) -> None:
        while self._gone:
            stable = next(iter(self._gone))
            if self._gone[stable] > now - _KEPT and len(self._gone) <= _MOST:
                break
            del self._gone[stable], self._hosts[stable]


class Parts:
    """Parts of a batch under construction."""

    def __init__(self, events: list[Event], whereabouts: Whereabouts) -> None:
        self.events = events
        self._whereabouts = whereabouts
        self._opened: Counter[tuple[int, int]] = Counter()  #: opened episodes, by host and minute
        self.minutes: list[Any] = []
        self.episodes: list[Any] = []
        self.hosts: dict[int, HostRow] = {}
        self.entities: list[Any] = []
        self.metrics: list[Any] = []
        self.unprovided: list[Any] = []

    def batch(self, advance: Advance) -> Batch:
        """All parts as one batch for the transaction of one partition."""
        return Batch(
            (advance,), (*self.minutes,), (*self.episodes,), (*self.events,), (*self.hosts.values(),),
            (*self.entities,), (*self.metrics,), (*self.unprovided,),
        )  # fmt: skip

    def close_set(self, one: ResourceSet, closed: int, percentiles: tuple[str, ...]) -> None:
        """Take the minutes of ``one`` before ``closed``, seconds."""
        over = [key for key in one.minutes if key[1] < closed]
        minutes = sorted([one.minutes.pop(key) for key in over] + [*one.late.values()], key=lambda each: each.minute)
        one.late = {}
        newest = max((minute.minute for minute in minutes), default=0)
        for minute in minutes:
            rollup = minute.rollup
            named = percentiles if one.table is not None else ()
            self.minutes.append(minute.matrix(one.percentiles(rollup.metrics, named)))
            one.archived += rollup.samples
            one.unwritten += rollup.samples
            names = one.names(rollup.metrics)
            before = one.inventory.provided(rollup.ids, rollup.metrics)
            provided = before | (rollup.valid > 0)
            told = self._tell(one, minute.minute, minute.invalid(before, provided, names))
            self.episodes += told.episodes
            if told.left_out:
                details = {"resource_set": one.resource_set, "samples": told.left_out}
                self.events.append(Event(minute.minute, "episodes_left_out", one.host, None, details))
            never = [names[column] for column in sorted(minute.missing()) if not provided[:, column].any()]
            self.unprovided += one.inventory.never(never, minute.minute)
            whole = minute.minute == newest and not minute.late
            self.entities += self._moved(one.changed(one.inventory.see(minute.minute, rollup.ids, provided, whole)))
            self.metrics += one.definitions(minute.series.schema)
            if one.table is not None and (minute.minute % 3600 == 0 or one.host not in self.hosts):
                self.hosts[one.host] = HostRow(
                    one.host, own_name(one.table.host, one.host), minute.minute, minute.minute + MINUTE
                )
        if not minutes:
            self.episodes += one.episodes.tell((), closed).episodes

    def _tell(self, one: ResourceSet, minute: int, invalid: list[Invalid]) -> Told:
        """Episodes of a minute, limited per host across its resource sets."""
        opened = self._opened[(one.host, minute)]
        told = one.episodes.tell(invalid, minute + MINUTE, max(0, MOST_OPENED - opened))
        self._opened[(one.host, minute)] += told.opened
        return told

    def _moved(self, rows: list[Any]) -> list[Any]:
        """The rows with the previous host of each VM that appeared here."""
        found = []
        for row in rows:
            if row.kind != "vm":
                found.append(row)
            elif row.vanished is None:
                found.append(row._replace(moved_from=self._whereabouts.appears(row.stable, row.host, row.appeared)))
            else:
                self._whereabouts.vanishes(row.stable, row.host, row.vanished)
                found.append(row)
        return found


def together(batches: list[Batch]) -> Batch:
    """Join several partitions in one transaction, in ascending order."""
    parts = sorted(batches, key=lambda batch: batch.advances[0].partition)
    return Batch(
        tuple(row for one in parts for row in one.advances),
        tuple(row for one in parts for row in one.minutes),
        tuple(row for one in parts for row in one.episodes),
        tuple(row for one in parts for row in one.events),
        tuple(row for one in parts for row in one.hosts),
        tuple(row for one in parts for row in one.entities),
        tuple(row for one in parts for row in one.metrics),
        tuple(row for one in parts for row in one.unprovided),
    )
