"""Judge: applies one method tick after tick, with hysteresis.

Shared by service, commands and views.

A tick of all hosts is complete when the last of them has sampled and its grace time is over, up to one and a half
intervals after the first. Overload does not depend on other hosts: each host is judged once by its newest record, as
soon as that arrives. The coherent reading determines which hosts are late, unknown or down, and where VMs are.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from acquisition.config.decisions import Decisions
from acquisition.errors import ShardpulseError
from acquisition.model.inputs import DecisionInputs
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.reader import paused
from acquisition.snapshot.values.block import Block, finite
from acquisition.snapshot.values.inputs import DerivedReading, InputsTable
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.recent import RecentTable
from acquisition.snapshot.values.states import CURRENT, LATE
from filters.decisions import sightings
from filters.decisions.deciding import Decided, decide, judge_all
from filters.decisions.method import Method
from filters.decisions.migrations import Log
from filters.decisions.overload_detection.rule import Rule
from filters.decisions.picture import Picture, Reading
from filters.decisions.plan import Move
from filters.decisions.sightings import Sightings
from filters.decisions.verdict import Heat, Verdict, aged
from filters.judging import migration_store
from filters.judging.observe import CODE_NAMES, observe, tick_of

Tables = Mapping[Owner, InputsTable]
_RATIO = "ratio"


class TickInputs:
    """Complete readings (filters.judging.observe.Inputs) from tables of the snapshot's own ticks."""

    def __init__(self, tables: Tables, recent: Mapping[Owner, RecentTable] | None = None) -> None:
        self._tables = tables
        self._recent = recent or {}

    def complete(self, block: Block, row: int, metric: str, reading: Reading | None) -> Reading | None:
        """The reading with its inputs; for a metric derived by the filter, the whole reading."""
        owner = (block.host_id, block.set_id)
        table = self._tables.get(owner)
        if table is None or row >= table.rows:
            return reading
        inputs = table.inputs(row, metric)
        if reading is None:
            derived = table.derived(row, metric)
            if derived is None:
                return None
            reading = _of_derived(metric, block, derived, inputs)
        elif inputs is not None:
            reading = reading._replace(inputs=inputs)
        recent = self._recent.get(owner)
        if recent is None or reading.inputs is None:
            return reading
        # the values in the filter's windows at this tick: none newer, none from before a restart
        known = recent.valid_values(int(table.ids[row]), metric, table.head.first, table.head.step)
        return reading._replace(
            recent=tuple(known.raw), recent_means=tuple(known.smoothed), recent_steps=tuple(known.steps)
        )


def inputs_of(reader: SnapshotReader, snapshot: Snapshot, rule: Rule) -> TickInputs:
    """Rule inputs for the hosts and VMs of a snapshot, with recent values of hosts if the rule needs them. Raises
    ShardError if no shard answers at all."""
    known = reader.inputs(snapshot)
    return TickInputs(known, recent_of(reader, host_owners(snapshot, known), rule) if rule.history else {})


def recent_of(reader: SnapshotReader, owners: Sequence[Owner], rule: Rule) -> Mapping[Owner, RecentTable]:
    """The recent values of these hosts, if the rule requires them. Raises as ``inputs_of``."""
    return reader.recent(owners) if rule.history and owners else {}


def host_owners(snapshot: Snapshot, tables: Tables) -> list[Owner]:
    """The hosts' own resource sets that have decision inputs."""
    owners = ((block.host_id, block.set_id) for block in snapshot.blocks if block.resource_set == HOST_SET)
    return [owner for owner in owners if owner in tables]


def _of_derived(metric: str, block: Block, derived: DerivedReading, inputs: DecisionInputs | None) -> Reading:
    deviation = None if derived.variance is None else math.sqrt(max(0.0, derived.variance))
    return Reading(
        metric, derived.mean, deviation, derived.trend, derived.last, CODE_NAMES[derived.code],
        finite(block.age_seconds), derived.stale_seconds, inputs, unit=_RATIO, interval=block.interval or 1.0,
    )  # fmt: skip


class _Known(NamedTuple):
    """A host's own figures, and the verdict on them ``at`` a time of the reader's clock."""

    block: Block
    table: InputsTable | None
    recent: RecentTable | None
    verdict: Verdict
    at: float


class Over(NamedTuple):
    """A snapshot with the newest of each host's own figures, and their decision inputs, recent values, and verdicts by
    host id."""

    snapshot: Snapshot
    tables: Mapping[Owner, InputsTable]
    recent: Mapping[Owner, RecentTable]
    verdicts: Mapping[str, Verdict]


class Newest:
    """Newest state of every host; used by one thread."""

    def __init__(self, settings: Decisions, method: Method) -> None:
        self._settings = settings
        self._method = method
        self._known: dict[Owner, _Known] = {}
        self._now = 0.0  #: time of the last ``take``

    def take(self, reader: SnapshotReader, hot_before: frozenset[str]) -> Heat:
        """Judge new records since the last call. Raises ShardpulseError if no shard answers at all."""
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
        """A coherent snapshot as of the last ``take``, with newer known records in it; records that are behind by then
        are dropped."""
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


_HOST_SET_ID = resource_set_id(HOST_SET)


class Judged(NamedTuple):
    """``tables``: decision inputs of the snapshot's blocks, if the filter computes them."""

    decided: Decided
    tables: Tables


class TickJudge:
    """Judge of successive ticks, each host by its newest sample; earlier hot hosts, proposals and sightings are input
    to the next judgement. For one thread."""

    def __init__(self, settings: Decisions, method: Method) -> None:
        self._settings = settings
        self._method = method
        self._hot: frozenset[str] = frozenset()
        self._proposed: tuple[Move, ...] = ()
        self._seen = Sightings()
        self._newest = Newest(settings, method)
        self._last: tuple[Snapshot, Judged] | None = None

    def configure(self, settings: Decisions) -> None:
        """Use the labels of these settings from the next picture on; may be called by any thread."""
        self._settings = settings

    def judge(self, reader: SnapshotReader, snapshot: Snapshot, moves: bool = True) -> Judged:
        """The verdicts on all hosts; with ``moves``, moves as well, unless the log of migrations cannot be read.

        Raises ShardError if no shard answers at all.
        """
        self._take(reader)
        tables = reader.inputs(snapshot)
        picture, known = self._picture(reader, snapshot, tables)
        log = self._log(reader, picture) if moves else None
        decided = decide(picture, self._method, log, self._hot, self._proposed, known)
        self._hot = decided.heat.hot
        if decided.plan is not None:
            self._proposed = decided.plan.moves
        self._last = snapshot, Judged(decided, tables)
        return Judged(decided, tables)

    def arrived(self, reader: SnapshotReader) -> Decided | None:
        """The verdicts on all hosts, without moves, if records since the last judgement change any outcome; otherwise
        None. Raises as ``judge``."""
        heat = self._take(reader)
        if self._last is None:
            return None
        snapshot, judged = self._last
        before = judged.decided.heat.verdicts
        if all(key not in before or before[key].outcome is each.outcome for key, each in heat.verdicts.items()):
            return None
        picture, known = self._picture(reader, snapshot, judged.tables)
        decided = decide(picture, self._method, None, self._hot, known=known)
        self._hot = decided.heat.hot
        self._last = snapshot, judged._replace(decided=decided)
        return decided

    def _take(self, reader: SnapshotReader) -> Heat:
        heat = self._newest.take(reader, self._hot)
        self._hot = self._hot - heat.verdicts.keys() | heat.hot
        return heat

    def _picture(
        self, reader: SnapshotReader, snapshot: Snapshot, tables: Tables
    ) -> tuple[Picture, Mapping[str, Verdict]]:
        """The picture of a snapshot with the newest figures of each host, and the known verdicts on it."""
        whole, newer, recent, known = self._newest.over(reader, snapshot)
        others = [owner for owner in host_owners(snapshot, tables) if owner not in newer]
        recent = {**recent_of(reader, others, self._method.rule), **recent}
        picture = observe(whole, self._settings, TickInputs({**tables, **newer}, recent))
        return picture._replace(tick=tick_of(snapshot)), known

    @paused()
    def newest(self, reader: SnapshotReader) -> Decided:
        """The verdicts on all hosts, each by its newest sample, from one reading of their own figures; without moves.
        Hosts are late or down as of the tick that is due. Raises as ``judge``."""
        snapshot = reader.newest(_is_host)
        picture = observe(snapshot, self._settings, inputs_of(reader, snapshot, self._method.rule))
        intervals = {block.interval for block in snapshot.blocks if block.interval > 0.0}
        due = max((reader.due_tick(each, snapshot.began) for each in intervals), default=0)
        decided = decide(picture._replace(tick=due), self._method, None, self._hot)
        self._hot = decided.heat.hot
        return decided

    def _log(self, reader: SnapshotReader, picture: Picture) -> Log | str:
        """Log of reported migrations, and of unreported ones whose end this judge saw."""
        policy = self._method.policy
        try:
            log = migration_store.read(reader.cluster, policy)
        except ShardpulseError as error:
            return f"cannot read the migration log: {error}"
        before, self._seen = self._seen.ends, sightings.follow(self._seen, picture, policy, log.now)
        if new := {host: at for host, at in self._seen.ends.items() if before.get(host) != at}:
            with contextlib.suppress(ShardpulseError):  # then only this judge has them
                migration_store.note(reader.cluster, new)
        return sightings.joined(log, self._seen)


def _is_host(_host_id: int, set_id: int) -> bool:
    """Selector of hosts' own sets: verdicts on hosts need no data of VMs."""
    return set_id == _HOST_SET_ID


def judge_otherwise(
    snapshot: Snapshot, settings: Decisions, method: Method, tables: Tables, recent: Mapping[Owner, RecentTable]
) -> Decided:
    """Verdicts of another rule on the same snapshot, with no host hot before; without moves."""
    return decide(observe(snapshot, settings, TickInputs(tables, recent)), method, None)
