"""The newest sample of every host, judged as soon as it has come.

A tick of all hosts is complete when the last of them has sampled and its grace time is over, up to one and a half
intervals after the first. Whether a host is overloaded is its own affair: each is judged by its newest record, once.
Who is late, unknown or down, and where VMs are, is said by the coherent reading.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.config.decisions import Decisions
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.block import Block
from acquisition.snapshot.inputs import InputsTable
from acquisition.snapshot.recent import RecentTable
from acquisition.snapshot.shard_reading import Owner
from acquisition.snapshot.states import CURRENT, LATE
from filters.decisions.heat import Heat, judge_all
from filters.decisions.method import Method
from filters.decisions.verdict import Verdict, aged
from filters.judging.observe import observe
from filters.judging.sources import TickInputs, host_owners, recent_of


class _Known(NamedTuple):
    """A host's own figures, and what the rule said of them ``at`` a moment of the reader's clock."""

    block: Block
    table: InputsTable | None
    recent: RecentTable | None
    verdict: Verdict
    at: float


class Over(NamedTuple):
    """A snapshot with the newest of each host's own figures in it, with what belongs to these: decision inputs, recent
    values, and verdicts by host id."""

    snapshot: Snapshot
    tables: Mapping[Owner, InputsTable]
    recent: Mapping[Owner, RecentTable]
    verdicts: Mapping[str, Verdict]


class Newest:
    """What is known of every host; one thread uses it."""

    def __init__(self, settings: Decisions, method: Method) -> None:
        self._settings = settings
        self._method = method
        self._known: dict[Owner, _Known] = {}
        self._now = 0.0  #: when something was taken last

    def take(self, reader: SnapshotReader, hot_before: frozenset[str]) -> Heat:
        """Judge what has come since the last time. Raises ShardpulseError when no shard answers at all."""
        rule, parameters = self._method.rule, self._method.parameters
        snapshot = reader.arrivals(HOST_SET)
        tables = reader.inputs(snapshot)
        recent = recent_of(reader, host_owners(snapshot, tables), rule)
        heat = judge_all(observe(snapshot, self._settings, TickInputs(tables, recent)), rule, parameters, hot_before)
        self._now = snapshot.now
        for block in snapshot.blocks:
            owner = (block.host_id, block.set_id)
            verdict = heat.verdicts[f"{block.host_id:016x}"]
            self._known[owner] = _Known(block, tables.get(owner), recent.get(owner), verdict, snapshot.now)
        return heat

    def over(self, reader: SnapshotReader, snapshot: Snapshot) -> Over:
        """A coherent snapshot as it is when something was taken last, with what is known in it; what is behind by then
        is forgotten."""
        now = self._now
        intervals = {each.block.interval for each in self._known.values()}
        due = {interval: reader.due_tick(interval, now) for interval in intervals}
        self._known = {
            owner: each for owner, each in self._known.items() if each.block.tick >= due[each.block.interval]
        }
        in_sight = [(block.host_id, block.set_id) for block in snapshot.blocks if block.state in (CURRENT, LATE)]
        found = {owner: self._known[owner] for owner in in_sight if owner in self._known}
        return Over(
            snapshot.with_newer({owner: each.block for owner, each in found.items()}, now),
            {owner: each.table for owner, each in found.items() if each.table is not None},
            {owner: each.recent for owner, each in found.items() if each.recent is not None},
            {f"{owner[0]:016x}": aged(each.verdict, now - each.at) for owner, each in found.items()},
        )
