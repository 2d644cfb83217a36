"""Decision inputs, where the filter computes them: k of n, time above, CUSUM, median, MAD, quartiles, and of how many.

Of hosts by default, of processes and VMs where they are asked for. Metrics that no frame carries because the filter
derives them (``cpu_busy_ratio``) stand here with their moving averages as well. A figure without a value has no
series; a window that is not full yet has, and is marked as warming.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from acquisition.model import codes
from acquisition.model.metric import GAUGE as GAUGE_KIND
from acquisition.model.metric import INFINITY, Metric
from acquisition.snapshot.inputs import InputsTable, Owner
from acquisition.wire.inputs import PLANES, Floats
from filters.exposition import naming, syntax
from filters.exposition.family import GAUGE, Family, Filled, Series
from filters.exposition.labels import ENTITY, HOST, SET
from filters.exposition.naming import ABOVE, DEVIATION, LAST, MEAN, THRESHOLD, TREND
from filters.exposition.options import ALL, NONE, Options
from filters.exposition.samples import Invalid, Sheet, described, families, invalid_sample
from filters.inputs.derived import DERIVED


class Figure(NamedTuple):
    """``word`` and ``unit`` (None: that of the metric) stand in the name."""

    word: str
    unit: str | None
    help: str


_KNOWN = {
    "above": Figure(
        ABOVE, "ticks", "how many of the last ticks (shardpulse_inputs_counted_ticks) exceed the threshold"
    ),
    "counted": Figure("counted_valid", "ticks", "how many of the ticks that are counted have a valid sample"),
    "time_above": Figure(ABOVE, "seconds", "time above the threshold without a break"),
    "valid": Figure(
        "valid", "ticks", "how many ticks of the window (shardpulse_inputs_window_ticks) have a valid sample"
    ),
    "cusum": Figure("cusum", None, "CUSUM of the valid samples against the moving average"),
    "median": Figure("median", None, "median of the window"),
    "mad": Figure("mad", None, "median absolute deviation of the window, not scaled"),
    "q1": Figure("q1", None, "first quartile of the window"),
    "q3": Figure("q3", None, "third quartile of the window"),
}
#: By plane of the record; one that is not known here stands by its own name.
FIGURES = {
    plane: _KNOWN.get(plane) or Figure(plane, None, f"{plane.replace('_', ' ')} of the valid samples")
    for plane in PLANES
    if plane != MEAN
}
LIMIT = Figure(THRESHOLD, None, "the threshold of the decision inputs")
WINDOW = Family(
    "shardpulse_inputs_window_ticks", GAUGE, "Ticks that median, MAD and quartiles look back on (n)", "ticks", SET
)
COUNTED = Family(
    "shardpulse_inputs_counted_ticks",
    GAUGE,
    "Ticks of which those above the threshold are counted (k of n)",
    "ticks",
    SET,
)
WARMING = Family(
    "shardpulse_inputs_warming", GAUGE,
    "1 for each host, process and VM whose window is not full yet: rules abstain; absent for all others",
    labels=(*ENTITY, "resource_set"),
)  # fmt: skip


class Source(NamedTuple):
    """A sheet of a block and the decision inputs of its rows."""

    sheet: Sheet
    table: InputsTable


def sources(found: Iterable[Sheet], tables: Mapping[Owner, InputsTable]) -> list[Source]:
    """The sheets that have decision inputs."""
    pairs = ((sheet, tables.get((sheet.block.host_id, sheet.block.set_id))) for sheet in found)
    return [
        Source(sheet, table)
        for sheet, table in pairs
        if table is not None and table.rows == len(sheet.rows.texts) and table.metrics
    ]


def derived_sheets(found: Iterable[Source], options: Options) -> list[Sheet]:
    """Sheets of the metrics that the filter derives."""
    return [sheet for source in found if (sheet := _derived_sheet(source, options)) is not None]


def exposed(found: Sequence[Source], options: Options) -> list[Source]:
    """Those whose decision inputs are to be shown."""
    if options.inputs == NONE:
        return []
    return [source for source in found if source.sheet.rows.single or options.inputs == ALL]


def of_sets(found: Sequence[Source]) -> list[Filled]:
    """How long windows are, and whose are not full."""
    texts = [syntax.labels(SET, (source.sheet.rows.host, source.sheet.resource_set)) for source in found]
    pairs = list(zip(texts, found, strict=True))
    return [
        (WINDOW, [(text, source.table.head.window) for text, source in pairs]),
        (COUNTED, [(text, source.table.head.counted) for text, source in pairs]),
        (WARMING, [series for source in found for series in _warming(source)]),
    ]


def thresholds(found: Sequence[Source]) -> list[Filled]:
    """The threshold of each metric: one series for each host, whatever number of entities it has."""
    by_family: dict[str, tuple[Family, list[Series]]] = {}
    for sheet, table in found:
        values = table.record.thresholds.tolist()
        for metric, value in zip(_metrics(sheet, table), values, strict=True):
            family = family_of(sheet.resource_set, metric, THRESHOLD, HOST)
            _, series = by_family.setdefault(family.name, (family, []))
            series.append((syntax.labels(HOST, (sheet.rows.host,)), value))
    return [(family, list(dict(series).items())) for family, series in by_family.values()]


def figures(found: Iterable[Source]) -> Iterator[tuple[Family, Iterator[str]]]:
    """Each figure of each metric with the text of its series."""
    return families(map(_sheet, found), FIGURES, family_of)


def family_of(resource_set: str, metric: Metric, plane: str, labels: tuple[str, ...] = ENTITY) -> Family:
    """The family of one figure of one metric, by its plane."""
    figure = LIMIT if plane == THRESHOLD else FIGURES[plane]
    name = naming.inputs_name(resource_set, metric.name, figure.word, figure.unit)
    what = described(metric, name) if figure.unit is None else metric.help
    return Family(name.text, GAUGE, f"{what}; {figure.help}", name.unit, labels)


def invalid_of_derived(found: Iterable[Source]) -> Iterator[Invalid]:
    """Derived samples that are not valid, as ``samples.invalid`` has them of all others."""
    for sheet, table in found:
        places = _derived_columns(sheet, table)
        marks = table.record.codes[list(places)] & codes.CODE_MASK
        for number, row in np.argwhere(marks != codes.VALID).tolist():
            metric = list(places.values())[number]
            reading = table.derived(row, metric)
            if reading is not None and not sheet.rows.hides(row):
                yield invalid_sample(sheet, row, metric, reading.code, reading.stale_seconds)


def _sheet(source: Source) -> Sheet:
    sheet, table = source
    record = table.record
    kept = PLANES[: len(record.planes)]
    planes = {plane: _shown(sheet, record.plane(plane).T) for plane in kept if plane in FIGURES}
    metrics = _metrics(sheet, table)
    return sheet._replace(planes=planes, metrics=metrics, layout=(sheet.layout, table.metrics, kept))


def _derived_sheet(source: Source, options: Options) -> Sheet | None:
    """The moving averages of derived metrics; None where there are none."""
    sheet, table = source
    places = _derived_columns(sheet, table)
    if not places:
        return None
    record, chosen = table.record, list(places)
    last, variance, trend, age = record.derived[:, chosen]
    mean = record.plane(MEAN)[table.head.columns - table.head.derived :][chosen]
    gone = ~(age <= options.stale_after) | np.isnan(mean)
    failed = gone | ((record.codes[chosen] & codes.CODE_MASK) != codes.VALID)
    with np.errstate(invalid="ignore"):
        known = {MEAN: mean, DEVIATION: np.sqrt(variance), TREND: trend, LAST: last}
    wanted = options.host_figures if sheet.rows.single else options.figures
    planes = {
        figure: _shown(sheet, np.where(failed if figure == LAST else gone, np.float32(np.nan), known[figure]).T)
        for figure in wanted
    }
    metrics = [_derived_metric(name) for name in places.values()]
    return sheet._replace(planes=planes, metrics=metrics, layout=(sheet.layout, tuple(places.values())))


def _derived_columns(sheet: Sheet, table: InputsTable) -> dict[int, str]:
    """The derived metrics of a table by their place among its derived columns, unless a frame carries one as well."""
    carried = {metric.name for metric in sheet.block.metrics}
    first = table.head.columns - table.head.derived
    return {place: name for place, name in enumerate(table.metrics[first:]) if name not in carried}


def _metrics(sheet: Sheet, table: InputsTable) -> list[Metric]:
    """The metrics of a table as those of the block describe them, and the derived ones."""
    known = {metric.name: metric for metric in sheet.block.metrics}
    return [known.get(name) or _derived_metric(name) for name in table.metrics]


def _derived_metric(name: str) -> Metric:
    help_text = DERIVED[name].help if name in DERIVED else "derived by the filter"
    return Metric(name, "ratio" if name.endswith("_ratio") else "", GAUGE_KIND, 0.0, INFINITY, help_text)


def _warming(source: Source) -> Iterator[Series]:
    sheet = source.sheet
    for row in np.flatnonzero(source.table.warming()).tolist():
        if not sheet.rows.hides(row):
            yield f"{sheet.rows.texts[row]},{syntax.labels(('resource_set',), (sheet.resource_set,))}", 1


def _shown(sheet: Sheet, plane: Floats) -> Floats:
    if sheet.rows.repeated is None:
        return plane
    return np.where(sheet.rows.repeated[:, None], np.float32(np.nan), plane)
