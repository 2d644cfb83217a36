"""The smoothed samples: one family per metric and figure, one series per entity; and what is not valid of them.

What has no value has no series: never 0, and never NaN, which an average over entities would take over. That is
a mean before its first valid sample or long after its last one, a raw value that failed a check, everything of a
host that is late (in a coherent reading) or down. Prometheus then marks the series as gone at that scrape
instead of drawing its last value on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from acquisition.model import codes
from acquisition.model.metric import Metric
from acquisition.snapshot.block import DOWN, Block
from acquisition.wire.smoothed import Floats
from filters.exposition import naming, syntax
from filters.exposition.family import GAUGE, Family, Filled, Series
from filters.exposition.labels import ENTITY, HOST, Prepared, Rows
from filters.exposition.naming import DEVIATION, FIGURES, LAST, MEAN, TREND
from filters.exposition.options import Options

_BATCH_ROWS = 256  #: formatting so many takes 0.1 ms, for which no other thread of a server can run
_HELP = {
    MEAN: "moving average of the valid samples",
    DEVIATION: "moving standard deviation",
    TREND: "slope of the moving average per second",
    LAST: "raw value of the newest sample, if it is valid",
}
INVALID = Family(
    "shardpulse_sample_invalid", GAUGE,
    "1 for each sample that is not valid at its tick, with the reason; absent for valid ones",
    labels=(*ENTITY, "resource_set", "metric", "validity"),
)  # fmt: skip
STALE = Family(
    "shardpulse_sample_stale_seconds", GAUGE,
    "Time from the last valid value of a sample that is not valid to its tick; absent if there never was one",
    "seconds", (*ENTITY, "resource_set", "metric"),
)  # fmt: skip


Naming = Callable[[str, Metric, str, tuple[str, ...]], Family]


class Sheet(NamedTuple):
    """Numbers of one block: ``planes`` holds float32 (n, m) by figure, NaN where nothing is to be shown. Sheets of the
    same resource set and ``layout`` have the same ``metrics``."""

    block: Block
    resource_set: str
    rows: Rows
    planes: Mapping[str, Floats]
    metrics: Sequence[Metric]
    layout: Hashable


class Invalid(NamedTuple):
    """One sample that is not valid."""

    reason: Series
    age: Series


class Batch(NamedTuple):
    """Rows of several blocks with the same columns, so that many hosts of one row cost what few of many rows do."""

    resource_set: str
    metrics: Sequence[Metric]
    single: bool  #: the rows are hosts
    texts: Sequence[str]
    template: str
    planes: Mapping[str, Floats]


def sheets(
    blocks: Iterable[Block], hosts: Mapping[int, str], sets: Mapping[int, str], prepared: Prepared, options: Options
) -> list[Sheet]:
    """The blocks that have something to show; ``hosts`` and ``sets`` are labels by number."""
    found = []
    for block in blocks:
        if block.state == DOWN or not is_named(block) or 0 in block.shape:
            continue
        rows = prepared.rows(block, hosts[block.host_id])
        if rows.single or options.entities:
            wanted = options.host_figures if rows.single else options.figures
            planes = _planes(block, rows, wanted, options.stale_after)
            found.append(Sheet(block, sets[block.set_id], rows, planes, block.metrics, block.schema))
    return found


def is_named(block: Block) -> bool:
    """Whether a block has values, and a table that names its columns."""
    names = block.names
    return (
        block.has_values
        and names is not None
        and names.schema == block.schema
        and len(names.table.metrics) == block.shape[1]
    )


def families(
    found: Iterable[Sheet], figures: Iterable[str] = FIGURES, named: Naming | None = None
) -> Iterator[tuple[Family, Iterator[str]]]:
    """Each family with the text of its series, batch by batch; ``named`` makes the family of a figure of a metric."""
    columns, named = _columns(_batches(found)), named or family_of
    for figure in figures:
        for (resource_set, _), members in columns.items():
            present = [(batch, index) for batch, index in members if figure in batch.planes]
            if present:
                batch, index = present[0]
                family = named(resource_set, batch.metrics[index], figure, HOST if batch.single else ENTITY)
                yield family, (_text(batch, index, family.name, figure) for batch, index in present)


def family_of(resource_set: str, metric: Metric, figure: str, labels: tuple[str, ...] = ENTITY) -> Family:
    """The family of one figure of one metric."""
    name = naming.family_name(resource_set, metric.name, figure)
    return Family(name.text, GAUGE, f"{described(metric, name)}; {_HELP[figure]}", name.unit, labels)


def described(metric: Metric, name: naming.Name) -> str:
    """What a metric is, with its unit where the name of its family does not tell it."""
    return (
        f"{metric.help}, in {metric.unit}" if metric.unit == "cores" or (metric.unit and not name.unit) else metric.help
    )


def invalid(found: Iterable[Sheet], derived: Iterable[Invalid] = ()) -> list[Filled]:
    """The families that tell which samples are not valid, why, and since when. Their absence means VALID."""
    all_of_them = [*(row for sheet in found for row in _invalid_of(sheet)), *derived]
    return [(INVALID, [row.reason for row in all_of_them]), (STALE, [row.age for row in all_of_them])]


def invalid_sample(sheet: Sheet, row: int, metric: str, code: int, age: float | None) -> Invalid:
    """The series of a sample that is not valid; ``age`` seconds from the last valid one to its tick."""
    who = f"{sheet.rows.texts[row]},{syntax.labels(STALE.labels[3:], (sheet.resource_set, metric))}"
    return Invalid((f'{who},validity="{codes.name_of(code)}"', 1), (who, age))


def _invalid_of(sheet: Sheet) -> Iterator[Invalid]:
    record = sheet.block.record()
    if record is None or not len(record.exceptions):
        return
    names = [metric.name for metric in sheet.block.metrics]
    shown = _first_of_each_name(sheet.block.metrics)
    for place, (code, age) in {place: rest for place, *rest in record.exceptions.tolist()}.items():
        row, column = divmod(place, len(names))
        if code & codes.CODE_MASK != codes.VALID and not sheet.rows.hides(row) and column in shown:
            yield invalid_sample(sheet, row, names[column], code, age)


def _planes(block: Block, rows: Rows, figures: Iterable[str], stale_after: float) -> dict[str, Floats]:
    found = {}
    gone = ~(block.stale_seconds() <= stale_after)
    if rows.repeated is not None:
        gone |= rows.repeated[:, None]
    gone |= np.isnan(block.plane(MEAN))
    failed = gone | ((block.codes() & codes.CODE_MASK) != codes.VALID)
    for figure in figures:
        plane = block.plane("variance" if figure == DEVIATION else figure)
        if figure == DEVIATION:
            with np.errstate(invalid="ignore"):
                plane = np.sqrt(plane)
        hidden = failed if figure == LAST else gone
        found[figure] = np.where(hidden, np.float32(np.nan), plane) if hidden.any() else plane
    return found


def _batches(found: Iterable[Sheet]) -> Iterator[Batch]:
    groups: dict[tuple[str, Hashable, bool], list[Sheet]] = {}
    rows: Counter[tuple[str, Hashable, bool]] = Counter()
    for sheet in found:
        key = (sheet.resource_set, sheet.layout, sheet.rows.single)
        groups.setdefault(key, []).append(sheet)
        rows[key] += len(sheet.rows.texts)
        if rows[key] >= _BATCH_ROWS:
            yield _batch(groups.pop(key))
            rows[key] = 0
    yield from map(_batch, groups.values())


def _batch(members: Sequence[Sheet]) -> Batch:
    first = members[0]
    return Batch(
        first.resource_set,
        first.metrics,
        first.rows.single,
        [text for sheet in members for text in sheet.rows.texts],
        "".join([sheet.rows.template for sheet in members]),
        {figure: np.concatenate([sheet.planes[figure] for sheet in members]) for figure in first.planes},
    )


def _columns(batches: Iterable[Batch]) -> dict[tuple[str, str], list[tuple[Batch, int]]]:
    """The columns of all batches by resource set and metric."""
    columns: dict[tuple[str, str], list[tuple[Batch, int]]] = {}
    for batch in batches:
        for index in _first_of_each_name(batch.metrics):
            columns.setdefault((batch.resource_set, batch.metrics[index].name), []).append((batch, index))
    return columns


def _first_of_each_name(metrics: Sequence[Metric]) -> list[int]:
    """A table that names two columns alike would make two series of one name: the first one counts."""
    first: dict[str, int] = {}
    for index, metric in enumerate(metrics):
        first.setdefault(metric.name, index)
    return list(first.values())


def _text(batch: Batch, column: int, name: str, figure: str) -> str:
    """The lines of one column: 9 significant digits tell every float32 from its neighbours."""
    values = batch.planes[figure][:, column]
    shown = np.isfinite(values)
    if shown.all():
        text = batch.template % tuple(values.tolist())
    else:
        pairs = zip(np.flatnonzero(shown).tolist(), values[shown].tolist(), strict=True)
        text = "".join([f"\n{{{batch.texts[row]}}} {value:.9g}" for row, value in pairs])
    return text.replace("\n", f"\n{name}")
