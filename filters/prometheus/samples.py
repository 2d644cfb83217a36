"""Sample metric families: one per metric and figure, one series per entity.

Invalid samples have families of their own.

A missing value has no series: never 0, and never NaN, which an average over entities would propagate. Missing are
a mean before its first valid sample or long after its last one, a raw value that failed a check, all values of a
host that is late (in a coherent reading) or down. Prometheus then marks the series as gone at that scrape
instead of repeating its last value.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from acquisition.model import codes
from acquisition.model.metric import Metric
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.states import DOWN
from acquisition.wire.records.smoothed import Floats
from filters.prometheus import naming, syntax
from filters.prometheus.naming import FIGURES, MEAN
from filters.prometheus.rows import ENTITY, Batch, Prepared, Rows, batch_of, first_of_each_name, grouped, is_host
from filters.prometheus.syntax import GAUGE, Family, Filled, Series

HOSTS, ALL, NONE = "hosts", "all", "none"
#: Hosts or entities with exposed decision inputs.
INPUTS = (HOSTS, ALL, NONE)


class Options(NamedTuple):
    """Options of the exposition of a snapshot: they determine the cardinality for Prometheus.

    ``entities``: include processes and VMs of the hosts; otherwise only families with one series per host.

    ``figures``: those of entities; ``host_figures``: those of hosts (acquisition.wire.records.planes). ``inputs``:
    decision inputs of hosts, also of entities (``all``), or of none.
    """

    entities: bool = True
    figures: tuple[str, ...] = (MEAN,)
    host_figures: tuple[str, ...] = tuple(FIGURES)
    inputs: str = HOSTS


INVALID = Family(
    "shardpulse_sample_invalid", GAUGE,
    "1 for each sample that failed a check at its tick, with the reason; absent for all others",
    labels=(*ENTITY, "resource_set", "metric", "validity"),
)  # fmt: skip
WITHOUT_VALUE = Family(
    "shardpulse_sample_without_value", GAUGE,
    "1 for each sample that has no value at its tick though no check failed, with the reason (MISSING, FIRST, LATE)",
    labels=INVALID.labels,
)  # fmt: skip
STALE = Family(
    "shardpulse_sample_stale_seconds", GAUGE,
    "Time from the last valid value of a sample that is not valid to its tick; absent if there never was one",
    "seconds", (*ENTITY, "resource_set", "metric"),
)  # fmt: skip


class Sheet(NamedTuple):
    """The numbers of one block. ``planes``: float32 (n, m) by figure, NaN for values that are not shown."""

    block: Block
    resource_set: str
    rows: Rows
    planes: Mapping[str, Floats]


class Invalid(NamedTuple):
    """One sample that is not valid: it ``failed`` a check, or has no value."""

    failed: bool
    reason: Series
    age: Series


def sheets(
    blocks: Iterable[Block], hosts: Mapping[int, str], sets: Mapping[int, str], prepared: Prepared, options: Options
) -> list[Sheet]:
    """Blocks with something to show; ``hosts`` and ``sets`` are labels by number."""
    found = []
    for block in blocks:
        if block.state == DOWN or not is_named(block) or 0 in block.shape:
            continue
        rows = prepared.rows(block, hosts[block.host_id])
        if rows.single or options.entities:
            wanted = options.host_figures if rows.single else options.figures
            planes = _planes(block, rows, wanted)
            found.append(Sheet(block, sets[block.set_id], rows, planes))
    return found


def is_named(block: Block) -> bool:
    """Whether a block has values and a table with the names of its columns."""
    names = block.names
    return (
        block.has_values
        and names is not None
        and names.schema == block.schema
        and len(names.table.metrics) == block.shape[1]
    )


def batches(found: Iterable[Sheet]) -> Iterator[Batch]:
    """Sheets grouped by resource set and columns."""
    for members in grouped(found, _columns_of, lambda sheet: len(sheet.rows.texts)):
        first = members[0]
        planes = {figure: np.concatenate([sheet.planes[figure] for sheet in members]) for figure in first.planes}
        yield batch_of(first.resource_set, first.block.metrics, [sheet.rows for sheet in members], planes)


def _columns_of(sheet: Sheet) -> tuple[str, int, bool]:
    return sheet.resource_set, sheet.block.schema, sheet.rows.single


def family_of(resource_set: str, metric: Metric, figure: str, labels: tuple[str, ...] = ENTITY) -> Family:
    """The family of one figure of one metric."""
    name, plane = naming.family_name(resource_set, metric.name, figure), FIGURES[figure]
    text = f"{plane.help}, if it is valid" if plane.raw else plane.help
    return Family(name.text, GAUGE, f"{described(metric, name)}; {text}", name.unit, labels)


def described(metric: Metric, name: naming.Name) -> str:
    """Description of a metric, with its unit if the name of its family does not include it."""
    return (
        f"{metric.help}, in {metric.unit}" if metric.unit == "cores" or (metric.unit and not name.unit) else metric.help
    )


def invalid(found: Iterable[Sheet], more: Iterable[Invalid] = ()) -> list[Filled]:
    """Families of samples that are not valid, with reason and time. Absence means VALID."""
    all_of_them = [*(row for sheet in found for row in _invalid_of(sheet)), *more]
    by_family = ((INVALID, True), (WITHOUT_VALUE, False))
    found_of = [(family, [row.reason for row in all_of_them if row.failed == failed]) for family, failed in by_family]
    return [*found_of, (STALE, [row.age for row in all_of_them])]


def late(
    blocks: Iterable[Block], hosts: Mapping[int, str], sets: Mapping[int, str], prepared: Prepared
) -> Iterator[Invalid]:
    """Metrics of hosts themselves with late values: for entities the state of their set shows it."""
    for block in blocks:
        if block.has_values or block.absence != codes.LATE or block.names is None or not is_host(block):
            continue
        sheet = Sheet(block, sets[block.set_id], prepared.rows(block, hosts[block.host_id]), {})
        for column in first_of_each_name(block.metrics):
            yield invalid_sample(sheet, 0, block.metrics[column].name, codes.LATE, None)


def invalid_sample(sheet: Sheet, row: int, metric: str, code: int, age: float | None) -> Invalid:
    """Series of a sample that is not valid; ``age``: seconds from the last valid one to its tick."""
    who = f"{sheet.rows.texts[row]},{syntax.labels(STALE.labels[3:], (sheet.resource_set, metric))}"
    return Invalid(bool(codes.IS_INVALID[code]), (f'{who},validity="{codes.name_of(code)}"', 1), (who, age))


def _invalid_of(sheet: Sheet) -> Iterator[Invalid]:
    record = sheet.block.record()
    if record is None or not len(record.exceptions):
        return
    names = [metric.name for metric in sheet.block.metrics]
    shown = first_of_each_name(sheet.block.metrics)
    for place, (code, age) in {place: rest for place, *rest in record.exceptions.tolist()}.items():
        row, column = divmod(place, len(names))
        if code & codes.CODE_MASK != codes.VALID and not sheet.rows.hides(row) and column in shown:
            yield invalid_sample(sheet, row, names[column], code, age)


def _planes(block: Block, rows: Rows, figures: Iterable[str]) -> dict[str, Floats]:
    found = {}
    gone = np.isnan(block.figure(FIGURES[MEAN]))
    if rows.repeated is not None:
        gone |= rows.repeated[:, None]
    failed = gone | ((block.codes() & codes.CODE_MASK) != codes.VALID)
    for figure in figures:
        plane = FIGURES[figure]
        values, hidden = block.figure(plane), failed if plane.raw else gone
        found[figure] = np.where(hidden, np.float32(np.nan), values) if hidden.any() else values
    return found
