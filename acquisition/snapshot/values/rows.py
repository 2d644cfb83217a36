"""Rows: the samples of a snapshot as plain objects, and patterns to select them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import translate
from itertools import repeat
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from acquisition.model import codes
from acquisition.snapshot.values.block import Block, finite
from acquisition.wire.records.planes import OWN, Plane
from acquisition.wire.table import Entity

#: One pattern or several; none selects everything. ``*`` and ``?`` are wildcards; case matters.
Patterns = str | Iterable[str]
#: Relation of a row to its VM, by host id and entity: ``Placements.mark`` (acquisition.snapshot.vms.placement).
Mark = Callable[[int, Entity], str]
Numbers = list[list[float | None]]
_NOTHING: Mapping[str, float | None] = {}
_CODE_NAMES = np.array([codes.name_of(code) for code in range(256)], object)


class Selection(NamedTuple):
    """Compiled patterns; None selects everything."""

    hosts: re.Pattern[str] | None = None
    resource_sets: re.Pattern[str] | None = None
    entities: re.Pattern[str] | None = None
    metrics: re.Pattern[str] | None = None

    @classmethod
    def of(
        cls, host: Patterns = (), resource_set: Patterns = (), entity: Patterns = (), metric: Patterns = ()
    ) -> Selection:
        """Compile patterns of names or hexadecimal ids."""
        return cls(*(_compile(patterns) for patterns in (host, resource_set, entity, metric)))

    def takes_block(self, host: str, host_id: int, resource_set: str, set_id: int) -> bool:
        """Whether rows of this resource set of this host may be selected."""
        return _matches(self.hosts, host, f"{host_id:016x}") and _matches(
            self.resource_sets, resource_set, f"{set_id:08x}"
        )

    def takes_entity(self, entity: Entity) -> bool:
        """Whether an entity is selected, by any of ``entity_keys``."""
        return self.entities is None or _matches(self.entities, *entity_keys(entity))

    def takes_metric(self, name: str) -> bool:
        """Whether a metric is selected."""
        return _matches(self.metrics, name)


def entity_keys(entity: Entity) -> tuple[str, ...]:
    """Keys by which an entity can be selected: name, stable id (``HOST:PID``, uuid), pid, id in hex."""
    pid = entity.stable.rpartition(":")[2]
    return entity.name, entity.stable, pid, f"{entity.id:016x}"


def _compile(patterns: Patterns) -> re.Pattern[str] | None:
    chosen = [patterns] if isinstance(patterns, str) else list(patterns)
    return re.compile("|".join(translate(pattern) for pattern in chosen)) if chosen else None


def _matches(pattern: re.Pattern[str] | None, *texts: str) -> bool:
    return pattern is None or any(pattern.match(text) for text in texts)


class Row(msgspec.Struct, frozen=True, gc=False):  # in no reference cycle: the collector can skip thousands
    """One smoothed sample with everything needed to judge it.

    Numbers are None if there is no value: a missing value is not zero and compares with nothing. ``extra`` has the
    figures of further kernels run by the filter, by name (acquisition.wire.records.planes).
    """

    host: str
    resource_set: str
    entity: str  #: name; the id in hex until its table has arrived
    kind: str  #: host, process, vm; empty if unknown
    stable: str  #: part that survives a restart: host name, pid, VM uuid
    epoch: str  #: part that does not
    id: str  #: 64-bit identity in hex
    metric: str
    unit: str
    mean: float | None  #: moving average; None also if its last valid value is stale
    deviation: float | None  #: square root of the moving variance
    trend: float | None  #: slope of the mean, units per second
    last: float | None  #: the raw value, valid or not
    validity: str  #: code of the raw value (acquisition.model.codes)
    age_seconds: float | None  #: since this tick was sampled; None if unknown
    stale_seconds: float | None  #: from the last valid value to this tick; None if there never was one
    tick: int
    interval: float
    state: str  #: of acquisition.snapshot.values.states
    reason: str  #: why it is not current
    lost_seconds: float | None = None  #: time from the newest loss in this set to this tick; None without losses
    sheds: bool = False  #: its probe leaves out ticks now: more is made than the pipeline takes
    #: for a VM with several processes: migrating, its place; shadow, another one, whose figures are not its load
    placement: str = ""
    extra: Mapping[str, float | None] = {}
    cause: str = ""  #: of states.CAUSES: why the host is unknown or down
    since: float | None = None  #: since when, seconds since 1970


def rows_of(blocks: Iterable[Block], selection: Selection, mark: Mark = lambda _, __: "") -> Iterator[Row]:
    """Rows selected, each with its ``mark``. A block about which nothing is known except its presence
    yields one row named ``?``, if the selection names no entity and no metric."""
    for block in blocks:
        if selection.takes_block(block.host, block.host_id, block.resource_set, block.set_id):
            yield from _rows_of_block(block, selection, mark)


def _rows_of_block(block: Block, selection: Selection, mark: Mark) -> Iterator[Row]:
    if 0 in block.shape:
        if selection.entities is None and selection.metrics is None:
            yield _placeholder(block)
        return
    columns = [(i, metric) for i, metric in enumerate(block.metrics) if selection.takes_metric(metric.name)]
    lines = [(i, entity) for i, entity in enumerate(block.entities) if selection.takes_entity(entity)]
    if not columns or not lines:
        return
    index = np.ix_([i for i, _ in lines], [i for i, _ in columns])
    own = [_numbers(block, plane, index) for plane in OWN]
    more = {plane.figure: _numbers(block, plane, index) for plane in block.extra_planes}
    validity = _CODE_NAMES[block.codes()[index]].tolist()
    stale = _listed(block.stale_seconds()[index])
    quality = block.quality
    tail = (block.tick, block.interval, block.state, block.reason, quality.lost_seconds, quality.sheds)
    cause, since = block.cause, block.since or None
    age = finite(block.age_seconds)
    where = (block.host, block.resource_set)
    names = [(metric.name, metric.unit) for _, metric in columns]
    extras = _by_name(more) if more else repeat(repeat(_NOTHING))
    for (_, entity), mean_of, deviation_of, trend_of, last_of, code_of, stale_of, extra_of in zip(
        lines, *own, validity, stale, extras, strict=False
    ):
        who = (*where, entity.name, entity.kind, entity.stable, entity.epoch, f"{entity.id:016x}")
        place = mark(block.host_id, entity)
        samples = zip(names, mean_of, deviation_of, trend_of, last_of, code_of, stale_of, extra_of, strict=False)
        for (name, unit), mean, deviation, trend, last, code, old, extra in samples:
            yield Row(*who, name, unit, mean, deviation, trend, last, code, age, old, *tail, place, extra, cause, since)


def _by_name(tables: Mapping[str, Numbers]) -> Iterator[list[dict[str, float | None]]]:
    """Figures of further kernels of each sample, line by line."""
    for lists in zip(*tables.values(), strict=True):
        yield [dict(zip(tables, values, strict=True)) for values in zip(*lists, strict=True)]


def _placeholder(block: Block) -> Row:
    return Row(
        block.host, block.resource_set, "?", "", "", "", "", "?", "", None, None, None, None,
        codes.name_of(block.absence), finite(block.age_seconds), None, block.tick, block.interval,
        block.state, block.reason, block.quality.lost_seconds, block.quality.sheds, cause=block.cause,
        since=block.since or None,
    )  # fmt: skip


def _numbers(block: Block, plane: Plane, index: tuple[npt.NDArray[np.intp], ...]) -> Numbers:
    return _listed(plane.figures(block.shown(plane)[index]))


def _listed(values: npt.NDArray[Any]) -> Numbers:
    """Nested lists, None if a value is not finite."""
    good = np.isfinite(values)
    if not good.all():
        values = values.astype(object)
        values[~good] = None
    lists: Numbers = values.tolist()
    return lists
