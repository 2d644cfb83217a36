"""Decision inputs as metric families, if the filter computes them.

They are: k of n, time above, CUSUM, median, MAD, quartiles, and the number of values.

Of hosts by default, of processes and VMs on request. Metrics that no frame contains because the filter
derives them (``cpu_busy_ratio``) are included with their moving averages. A figure without a value has no
series; a window that is not full yet has one, marked as warming.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model import codes, ticks
from acquisition.model.derived import DERIVED
from acquisition.model.metric import GAUGE as GAUGE_KIND
from acquisition.model.metric import INFINITY, Metric
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.snapshot.values.members import Owner
from acquisition.wire.records.inputs import ALWAYS_KEPT, COUNTS, KEPT, Floats, Section, figure_names
from filters.prometheus import naming, syntax
from filters.prometheus.naming import ABOVE, DEVIATION, LAST, MEAN, THRESHOLD, TREND
from filters.prometheus.rows import ENTITY, HOST, SET, Batch, Rows, batch_of, families, grouped
from filters.prometheus.samples import ALL, NONE, Invalid, Options, Sheet, described, invalid_sample
from filters.prometheus.syntax import GAUGE, Family, Filled, Series
from filters.text.quantities import digits


class Figure(NamedTuple):
    """``word`` and ``unit`` (None: that of the metric) are parts of the name."""

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
    "lowest": Figure("lowest", None, "lowest of the last valid samples (shardpulse_inputs_plateau_samples)"),
    "highest": Figure("highest", None, "highest of the last valid samples (shardpulse_inputs_plateau_samples)"),
}
#: By figure kept of every column; one that is unknown here gets its own name.
FIGURES = {
    plane: _KNOWN.get(plane) or Figure(plane, None, f"{plane.replace('_', ' ')} of the valid samples") for plane in KEPT
}
_NONE = np.float32(np.nan)
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
PLATEAU = Family(
    "shardpulse_inputs_plateau_samples", GAUGE, "Valid samples whose lowest and highest are kept; absent: they are not",
    "samples", SET,
)  # fmt: skip
WARMING = Family(
    "shardpulse_inputs_warming", GAUGE,
    "1 for each host, process and VM whose window is not full yet: rules abstain; absent for all others",
    labels=(*ENTITY, "resource_set"),
)  # fmt: skip


class Source(NamedTuple):
    """A sheet of a block and the decision inputs of its rows."""

    sheet: Sheet
    table: InputsTable

    @property
    def layout(self) -> Hashable:
        """Key shared by sources with the same columns."""
        sheet, head = self.sheet, self.table.head
        columns = (self.table.metrics, head.derived, head.figures)
        return sheet.resource_set, sheet.block.schema, sheet.rows.single, columns


class Group(NamedTuple):
    """Sources with the same columns. ``derived``: names of derived metrics by their place among those of a table,
    without those that frames also contain."""

    resource_set: str
    metrics: Sequence[Metric]
    derived: Mapping[int, str]
    members: Sequence[Source]

    @property
    def sections(self) -> list[Section]:
        """Sections of the members."""
        return [source.table.section for source in self.members]

    @property
    def rows(self) -> list[Rows]:
        """Rows of each member."""
        return [source.sheet.rows for source in self.members]


def groups(found: Iterable[Sheet], tables: Mapping[Owner, InputsTable]) -> list[Group]:
    """Sheets with decision inputs, grouped by their columns."""
    pairs = ((sheet, tables.get((sheet.block.host_id, sheet.block.set_id))) for sheet in found)
    sources = (
        Source(sheet, table) for sheet, table in pairs if table is not None and table.rows == len(sheet.rows.texts)
    )
    return [_group(members) for members in grouped(sources, lambda one: one.layout, lambda one: one.table.rows)]


def exposed(found: Sequence[Group], options: Options) -> list[Group]:
    """Blocks with exposed decision inputs."""
    if options.inputs == NONE:
        return []
    return [group for group in found if group.rows[0].single or options.inputs == ALL]


def of_sets(found: Sequence[Group]) -> list[Filled]:
    """Lengths of windows, and sets with windows that are not full."""
    sources = [source for group in found for source in group.members]
    texts = [syntax.labels(SET, (source.sheet.rows.host, source.sheet.resource_set)) for source in sources]
    pairs = [(text, source.table.head) for text, source in zip(texts, sources, strict=True)]
    return [
        (WINDOW, [(text, head.window) for text, head in pairs]),
        (COUNTED, [(text, head.counted) for text, head in pairs]),
        (PLATEAU, [(text, head.plateau or None) for text, head in pairs]),
        (WARMING, [series for source in sources for series in _warming(source)]),
    ]


def thresholds(found: Sequence[Group]) -> list[Filled]:
    """Threshold of each metric: one series per host, for any number of entities."""
    by_name: dict[str, tuple[Family, dict[str, float | None]]] = {}
    for group in found:
        texts = [syntax.labels(HOST, (rows.host,)) for rows in group.rows]
        values = np.array([section.thresholds for section in group.sections]).T.tolist()
        for metric, column in zip(group.metrics, values, strict=True):
            family = family_of(group.resource_set, metric, THRESHOLD, HOST)
            by_name.setdefault(family.name, (family, {}))[1].update(zip(texts, map(digits, column), strict=True))
    return [(family, list(series.items())) for family, series in by_name.values()]


def figures(found: Iterable[Group]) -> Iterator[tuple[Family, Iterator[str]]]:
    """Each figure of each metric with the text of its series."""
    return families(map(_batch, found), FIGURES, family_of)


def family_of(resource_set: str, metric: Metric, plane: str, labels: tuple[str, ...] = ENTITY) -> Family:
    """The family of one figure of one metric, by its plane."""
    figure = LIMIT if plane == THRESHOLD else FIGURES[plane]
    name = naming.inputs_name(resource_set, metric.name, figure.word, figure.unit)
    what = described(metric, name) if figure.unit is None else metric.help
    return Family(name.text, GAUGE, f"{what}; {figure.help}", name.unit, labels)


def derived_batches(found: Iterable[Group], options: Options) -> Iterator[Batch]:
    """Moving averages of the metrics derived by the filter."""
    for group in found:
        if group.derived:
            metrics = [_derived_metric(name) for name in group.derived.values()]
            yield batch_of(group.resource_set, metrics, group.rows, _derived_planes(group, options))


def invalid_of_derived(found: Iterable[Group]) -> Iterator[Invalid]:
    """Derived samples that are not valid, like ``samples.invalid`` for all others."""
    for group in found:
        for sheet, table in group.members:
            if not table.section.codes.any():
                continue
            for place, metric in group.derived.items():
                for row in np.flatnonzero(table.section.codes[place] & codes.CODE_MASK != codes.VALID).tolist():
                    reading = table.derived(row, metric)
                    if reading is not None and not sheet.rows.hides(row):
                        yield invalid_sample(sheet, row, metric, reading.code, reading.stale_seconds)


def _group(members: Sequence[Source]) -> Group:
    sheet, table = members[0]
    known = {metric.name: metric for metric in sheet.block.metrics}
    metrics = [known.get(name) or _derived_metric(name) for name in table.metrics]
    names = table.metrics[table.head.columns - table.head.derived :]
    derived = {place: name for place, name in enumerate(names) if name not in known}
    return Group(sheet.resource_set, metrics, derived, members)


def _batch(group: Group) -> Batch:
    sections, hidden = group.sections, _repeated(group.rows)
    kept = np.concatenate([section.figures for section in sections], axis=2)
    counts = np.concatenate([section.counts for section in sections], axis=2).astype(np.float32)
    names = (*figure_names(sections[0].head.figures), *COUNTS)
    by_name = dict(zip(names, (*kept, *counts), strict=True))
    for name in ALWAYS_KEPT:
        by_name[name] = np.where(by_name["valid"] > 0, by_name[name], _NONE)
    planes = {name: _shown(plane.T, hidden) for name, plane in by_name.items()}
    return batch_of(group.resource_set, group.metrics, group.rows, planes)


def _derived_planes(group: Group, options: Options) -> dict[str, Floats]:
    chosen, sections = list(group.derived), group.sections
    derived = np.concatenate([section.derived for section in sections], axis=2)[:, chosen]
    last, mean, variance, trend, age = derived
    marks = np.concatenate([section.codes for section in sections], axis=1)[chosen] & codes.CODE_MASK
    limits = [ticks.stale_after(sheet.block.interval) for sheet, _ in group.members]
    gone = ~(age <= np.repeat(limits, [table.rows for _, table in group.members])) | np.isnan(mean)
    with np.errstate(invalid="ignore"):
        known = {MEAN: mean, DEVIATION: np.sqrt(variance), TREND: trend, LAST: last}
    hidden = _repeated(group.rows)
    wanted = options.host_figures if group.rows[0].single else options.figures
    return {
        name: _shown(np.where(gone | (marks != codes.VALID) if name == LAST else gone, _NONE, known[name]).T, hidden)
        for name in wanted
        if name in known
    }


def _derived_metric(name: str) -> Metric:
    help_text = DERIVED[name].help if name in DERIVED else "derived by the filter"
    return Metric(name, "ratio" if name.endswith("_ratio") else "", GAUGE_KIND, 0.0, INFINITY, help_text)


def _warming(source: Source) -> Iterator[Series]:
    sheet = source.sheet
    for row in np.flatnonzero(source.table.warming()).tolist():
        if not sheet.rows.hides(row):
            yield f"{sheet.rows.texts[row]},{syntax.labels(('resource_set',), (sheet.resource_set,))}", 1


def _repeated(rows: Sequence[Rows]) -> npt.NDArray[np.bool_] | None:
    """Mask of rows that repeat the id of an earlier row of their block (damaged state); None: no row does."""
    if all(one.repeated is None for one in rows):
        return None
    return np.concatenate(
        [np.zeros(len(one.texts), np.bool_) if one.repeated is None else one.repeated for one in rows]
    )


def _shown(plane: Floats, hidden: npt.NDArray[np.bool_] | None) -> Floats:
    return plane if hidden is None else np.where(hidden[:, None], _NONE, plane)
