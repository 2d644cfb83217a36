"""Reading of displayed data from the shards (I/O).

For a small data center everything, to recognize migrating VMs; for a large one the metrics
of all hosts and everything of the open one.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import NamedTuple, Self

from acquisition.config import endpoints
from acquisition.config.settings import Settings, Shards
from acquisition.errors import ShardpulseError
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.shards.servers.status import ShardStatus
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.recent import RecentTable
from acquisition.status import health, shards
from filters.decisions.deciding import judge_all
from filters.decisions.method import method_of
from filters.judging.judge import inputs_of
from filters.judging.observe import observe
from filters.top.contents import Observation, Place

_HOST_SET_ID = resource_set_id(HOST_SET)
_SMALL = 600  #: resource sets of all hosts up to which all is read: about 30 ms with a hundred rows each
_SHARDS_SECONDS = 2.0  #: between two status queries to every shard


class Wanted(NamedTuple):
    """Data wanted besides the metrics of all hosts: everything of one host (0: none), the recent past of
    ``place`` in it when that is new, and the whole health."""

    host: int = 0
    health: bool = False
    place: Place | None = None


class Source:
    """Connections to the shards, and state carried to the next reading. Not thread-safe; a context manager."""

    def __init__(self, settings: Settings, where: Shards, set_names: Mapping[int, str], grace: float) -> None:
        seeds, credentials = endpoints.seeds(where), endpoints.credentials(where)
        self._down_after = settings.snapshot.down_after_seconds
        self._cluster = endpoints.connect(where)
        self._members = Members(seeds, credentials, where.timeout_seconds)
        self._reader = SnapshotReader(endpoints.connect(where), grace, self._down_after)
        self._set_names = set_names
        self._decisions = settings.decisions
        self._method = method_of(settings.decisions)
        self._hot: frozenset[str] = frozenset()
        self._large = True  #: until known
        self._unsampled: set[int] = set()
        self._known: Wanted | None = None  #: what has been read before
        self._shards: tuple[ShardStatus, ...] = ()
        self._shards_at = float("-inf")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()
        self._members.close()
        self._cluster.close()

    def read(self, wanted: Wanted) -> Observation:
        """One coherent reading. Raises as SnapshotReader.coherent."""
        unsampled, opened = self._unsampled, wanted.host

        def takes(host: int, resource_set: int) -> bool:
            return resource_set == _HOST_SET_ID or host == opened or host in unsampled

        snapshot = self._reader.coherent(takes if self._large else None)
        large = len(snapshot.blocks) + len(snapshot.unread) > _SMALL
        self._unsampled = _without_host_set(snapshot)
        again = self._large and (not large or not self._unsampled <= unsampled)
        self._large = large
        if again:  # more data is available, or names are still to be read
            return self.read(wanted)
        found = self._health() if wanted.health else None
        rows = tuple(found.shards) if found is not None else self._look_at_shards()
        return Observation(
            snapshot,
            rows,
            found,
            recent=self._recent(snapshot, wanted),
            outcomes={} if large else self._judge(snapshot),
        )

    def _judge(self, snapshot: Snapshot) -> Mapping[int, str]:
        """Outcomes of the rule by host, with hysteresis from one reading to the next."""
        method = self._method
        picture = observe(snapshot, self._decisions, inputs_of(self._reader, snapshot, method.rule))
        heat = judge_all(picture, method.rule, method.parameters, self._hot)
        self._hot = heat.hot
        return {int(host, 16): verdict.outcome.value for host, verdict in heat.verdicts.items()}

    def _recent(self, snapshot: Snapshot, wanted: Wanted) -> Mapping[Owner, RecentTable]:
        """Recent values of the part just opened, and initially of all hosts of a small data center."""
        known, self._known = self._known, wanted._replace(health=False)
        owners = [(block.host_id, block.set_id) for block in snapshot.blocks if block.host_id == wanted.host]
        if known is None and not self._large:
            owners += [(block.host_id, block.set_id) for block in snapshot.blocks if block.set_id == _HOST_SET_ID]
        if known == self._known or not owners:
            return {}
        try:
            return self._reader.recent(list(dict.fromkeys(owners)))
        except ShardpulseError:  # the history starts now
            return {}

    def _health(self) -> health.Health | None:
        try:
            return health.read(self._cluster, self._members, self._set_names, self._down_after)
        except ShardpulseError:  # the snapshot reports errors of the shards
            return None

    def _look_at_shards(self) -> tuple[ShardStatus, ...]:
        if time.monotonic() - self._shards_at >= _SHARDS_SECONDS:
            self._shards_at = time.monotonic()
            try:
                self._shards = tuple(shards.read(self._members))
            except ShardpulseError:
                self._shards = ()
        return self._shards


def _without_host_set(snapshot: Snapshot) -> set[int]:
    """Hosts without samples of their own metrics: known by their other resource sets."""
    blocks = (*snapshot.blocks, *snapshot.unread)
    return {block.host_id for block in blocks} - {block.host_id for block in blocks if block.set_id == _HOST_SET_ID}


# -- Readings at the pace of the ticks, in a separate thread: a hanging shard never delays a key.

_LATENESS = 0.02  #: seconds after the end of a tick's grace time, for writes in progress
_FASTEST = 0.5
Outcome = Observation | Exception


class Feed:
    """``fileno`` is readable while an outcome waits for ``take``; a context manager that ends the thread.

    ``open_source`` is called in the thread. Readings follow the ends of the grace time of ticks
    ``interval`` long, so that each finds one new tick; the first is immediate. Without an interval it is
    that of the hosts. The pause between two readings is at least as long as the first of them took.
    """

    def __init__(
        self, open_source: Callable[[], AbstractContextManager[Source]], interval: float | None, grace: float
    ) -> None:
        self._open, self._given, self._grace = open_source, interval, grace
        self._interval = interval or 1.0
        self._condition = threading.Condition()
        self._wanted = Wanted()
        self._asked_anew = False
        self._closed = False
        self._outcome: Outcome | None = None
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._thread = threading.Thread(target=self._work, name="feed", daemon=True)

    def __enter__(self) -> Feed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify()

    def fileno(self) -> int:
        """Descriptor for poll."""
        return self._event

    def ask(self, wanted: Wanted) -> None:
        """Set the data for the next readings; a change is read immediately."""
        with self._condition:
            if wanted != self._wanted:
                self._asked_anew = wanted.health or bool(wanted.host)  # closing needs no new data
                self._wanted = wanted
                self._condition.notify()

    def take(self) -> Outcome | None:
        """The newest outcome, once: an observation, or the error that prevented it."""
        try:
            os.eventfd_read(self._event)
        except BlockingIOError:
            return None
        with self._condition:
            outcome, self._outcome = self._outcome, None
        return outcome

    def _work(self) -> None:
        try:
            with self._open() as source:
                while not self._closed:
                    began = time.monotonic()
                    self._read(source)
                    self._rest(time.monotonic() - began)
        except Exception as error:  # the screen must be left before anything is printed
            self._hand_over(error)

    def _read(self, source: Source) -> None:
        with self._condition:
            wanted, self._asked_anew = self._wanted, False
        try:
            found = source.read(wanted)
        except ShardpulseError as error:
            self._hand_over(error)
            return
        if self._given is None:
            self._interval = pace_of(found.snapshot)
        self._hand_over(found)

    def _rest(self, took: float) -> None:
        """Wait until the next tick is complete, or the wanted data changes."""
        left = until_next(self._interval, self._grace)
        with self._condition:
            self._condition.wait_for(lambda: self._closed or self._asked_anew, max(left, took))

    def _hand_over(self, outcome: Outcome) -> None:
        with self._condition:
            self._outcome = outcome
            os.eventfd_write(self._event, 1)


def until_next(interval: float, grace: float) -> float:
    """Seconds until the grace time of the next tick of this interval is over."""
    since = (time.time() - grace - _LATENESS) / interval
    return (math.floor(since) + 1 - since) * interval


def pace_of(snapshot: Snapshot) -> float:
    """Seconds between two readings: the shortest interval of all hosts, but no faster than the eye."""
    intervals = [block.interval for block in snapshot.blocks if block.interval > 0]
    return max(_FASTEST, min(intervals, default=1.0))
