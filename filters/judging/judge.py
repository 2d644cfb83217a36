"""What the reading thread decides about each snapshot: hot hosts and moves, by the configured method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.config.settings import Settings
from acquisition.errors import ShardpulseError
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.inputs import InputsTable, Owner, RecentTable
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import Method
from filters.decisions.migrations import Log
from filters.judging import migration_store
from filters.judging.observe import observe
from filters.judging.sources import TickInputs, inputs_of

Tables = Mapping[Owner, InputsTable]


class Judged(NamedTuple):
    """``tables`` are the decision inputs of the snapshot's blocks, where the filter computes them."""

    decided: Decided
    tables: Tables


class Judging:
    """Decides tick after tick; what was hot before goes into the next judgement. One thread uses it."""

    def __init__(self, settings: Settings, method: Method) -> None:
        self._settings = settings.decisions
        self._method = method
        self._hot: frozenset[str] = frozenset()

    def judge(self, reader: SnapshotReader, snapshot: Snapshot) -> Judged:
        """The verdicts on all hosts, and moves unless the log of migrations cannot be read.

        Raises ShardError when no shard answers at all.
        """
        tables = reader.inputs(snapshot)
        picture = observe(snapshot, self._settings, inputs_of(reader, snapshot, self._method.rule, tables))
        decided = decide(picture, self._method, self._log(reader), self._hot)
        self._hot = decided.heat.hot
        return Judged(decided, tables)

    def _log(self, reader: SnapshotReader) -> Log | str:
        try:
            return migration_store.read(reader.cluster, self._method.policy)
        except ShardpulseError as error:
            return f"the log of migrations cannot be read: {error}"


def judge_otherwise(
    snapshot: Snapshot, settings: Settings, method: Method, tables: Tables, recent: Mapping[Owner, RecentTable]
) -> Decided:
    """What another rule says of the same snapshot, as if no host had been hot before; without moves."""
    return decide(observe(snapshot, settings.decisions, TickInputs(tables, recent)), method, None)
