"""Judging tick after tick by one method, with hysteresis: what the service, the commands and the views share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.config.decisions import Decisions
from acquisition.errors import ShardpulseError
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.inputs import InputsTable
from acquisition.snapshot.owner import Owner
from acquisition.snapshot.recent import RecentTable
from filters.decisions import sightings
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import Method
from filters.decisions.migrations import Log
from filters.decisions.picture import Picture
from filters.decisions.plan import Move
from filters.decisions.sightings import Sightings
from filters.judging import migration_store
from filters.judging.hot_list import hot_list
from filters.judging.observe import observe
from filters.judging.sources import TickInputs, inputs_of

Tables = Mapping[Owner, InputsTable]


class Judged(NamedTuple):
    """``tables`` are the decision inputs of the snapshot's blocks, where the filter computes them."""

    decided: Decided
    tables: Tables


class TickJudge:
    """Decides tick after tick; what was hot, proposed and seen to migrate before goes into the next judgement. One
    thread uses it."""

    def __init__(self, settings: Decisions, method: Method) -> None:
        self._settings = settings
        self._method = method
        self._hot: frozenset[str] = frozenset()
        self._proposed: tuple[Move, ...] = ()
        self._seen = Sightings()

    def judge(self, reader: SnapshotReader, snapshot: Snapshot, moves: bool = True) -> Judged:
        """The verdicts on all hosts; with ``moves`` also those, unless the log of migrations cannot be read.

        Raises ShardError when no shard answers at all.
        """
        tables = reader.inputs(snapshot)
        picture = observe(snapshot, self._settings, inputs_of(reader, snapshot, self._method.rule, tables))
        log = self._log(reader, picture) if moves else None
        decided = decide(picture, self._method, log, self._hot, self._proposed)
        self._hot = decided.heat.hot
        if decided.plan is not None:
            self._proposed = decided.plan.moves
        return Judged(decided, tables)

    def hot_list(self, reader: SnapshotReader) -> Decided:
        """The verdicts on all hosts but those that are certainly not hot, without moves; see ``hot_list``."""
        decided = hot_list(reader, self._settings, self._method, self._hot)
        self._hot = decided.heat.hot
        return decided

    def _log(self, reader: SnapshotReader, picture: Picture) -> Log | str:
        """What was reported, and what ended unreported before the eyes of this one."""
        policy = self._method.policy
        try:
            log = migration_store.read(reader.cluster, policy)
        except ShardpulseError as error:
            return f"the log of migrations cannot be read: {error}"
        self._seen = sightings.follow(self._seen, picture, policy, log.now)
        return sightings.joined(log, self._seen)


def judge_otherwise(
    snapshot: Snapshot, settings: Decisions, method: Method, tables: Tables, recent: Mapping[Owner, RecentTable]
) -> Decided:
    """What another rule says of the same snapshot, as if no host had been hot before; without moves."""
    return decide(observe(snapshot, settings, TickInputs(tables, recent)), method, None)
