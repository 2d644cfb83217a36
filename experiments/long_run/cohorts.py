"""Cohorts of emulated hosts that vanish, one generator after another.

Only one cohort exists at a time: the number of hosts stays the same, and every ended cohort must disappear from the
shards, key by key.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from acquisition.link.cluster import Cluster
from acquisition.model.identity import host_id
from acquisition.snapshot.reconcile.books import Account
from acquisition.snapshot.values.block import Block
from acquisition.wire import keys, table
from acquisition.wire.layout import Layout
from acquisition.wire.status import EXPIRE_SECONDS as STATUS_SECONDS
from experiments.emulation.workload import host_name
from experiments.harness.balance import of_hosts
from experiments.harness.shard_counts import ask_all
from experiments.processes.control import Child, python

#: Records and status expire by the shards' clocks, the rest when the filter looks, every ten seconds.
_LATENESS = 15.0
#: Rows that may have left since the newest table: the emulated changes are replace, leave, join, in turn.
_LEFT_SINCE = 1


class Gone(NamedTuple):
    """A cohort that has ended: its hosts, its own count of samples, its end (monotonic), its accounts then."""

    hosts: range
    made: int
    drained: bool
    at: float
    lost: int
    unaccounted: int  #: made by the generator and neither applied nor lost after the drain


class Cohorts:
    """Runs the cohorts in turn; ``task`` makes a generator's first order for a range of hosts."""

    def __init__(
        self, first_host: int, size: int, task: Callable[[range], dict[str, Any]], books: Callable[[], list[Account]]
    ) -> None:
        self._hosts = range(first_host, first_host + size)
        self._task = task
        self._books = books
        self._child: Child | None = None
        self.gone: list[Gone] = []

    @property
    def pids(self) -> list[int]:
        """Process of the current cohort."""
        return [self._child.pid] if self._child else []

    def begin(self, seconds: float = 60.0) -> None:
        """Start the next cohort; returns once it samples. Raises ChildFailed."""
        self._child = Child("generator of hosts that vanish", python("experiments.emulation.generator"))
        self._child.send(self._task(self._hosts))
        self._child.receive(seconds)
        self._child.send({"do": "start"})

    def end(self, seconds: float = 60.0) -> None:
        """Stop the current cohort once all of its frames are smoothed, and reconcile its counts."""
        if self._child is None:
            return
        self._child.send({"do": "stop"})
        report = self._child.receive(seconds)
        accounts = of_hosts(self._books(), self._hosts)
        made = report["counts"]["samples"]
        accounted = sum(account.before + account.applied + account.lost for account in accounts)
        lost = sum(account.lost for account in accounts)
        self.gone.append(Gone(self._hosts, made, report["drained"], time.monotonic(), lost, made - accounted))
        self.close()
        self._hosts = range(self._hosts.stop, self._hosts.stop + len(self._hosts))

    def check(self) -> None:
        """Raises ChildFailed if the cohort's process has ended."""
        if self._child:
            self._child.check()

    def close(self) -> None:
        """End the process in any state."""
        if self._child:
            self._child.stop()
            self._child = None


def left_over(cluster: Cluster, layout: Layout, gone: list[Gone], expire: float) -> tuple[int, list[str]]:
    """Number of keys and fields of vanished hosts that should have expired by now, and those that have not."""
    due, found = 0, []
    names = {name.decode("utf-8", "replace") for found in ask_all(cluster, "KEYS", "*") for name in found}
    for cohort in gone:
        age = time.monotonic() - cohort.at - _LATENESS
        for index in cohort.hosts:
            number = host_id(host_name(index))
            tag = layout.tag_of(number)
            text = f"{number:016x}"
            if age > expire:
                due += 1
                found += [key for key in names if text in key and not key.startswith("status:")]
                members = cluster.call(keys.applied(tag), "HKEYS", keys.applied(tag))
                found += [f"{keys.applied(tag)} {member.decode()}" for member in members if text.encode() in member]
            if age > STATUS_SECONDS and keys.status(tag, number) in names:
                found.append(keys.status(tag, number))
    return due, sorted(found)


def forgotten_names(cluster: Cluster, layout: Layout, blocks: Sequence[Block]) -> int:
    """Entities still named but missing in their host's newest record: a table may be as old as the newest change that
    added a row."""
    stale = 0
    for block in blocks:
        if not block.has_values:
            continue
        key = keys.names(layout.tag_of(block.host_id), block.host_id, block.set_id)
        data = cluster.call(key, "GET", key)
        known = {entity.id for entity in table.decode(data).entities} if data is not None else set()
        stale += max(0, len(known - set(block.ids.tolist())) - _LEFT_SINCE)
    return stale
