"""Rows of several blocks with the same columns, so that many hosts of one row cost what few of many rows do."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from acquisition.model.metric import Metric
from acquisition.wire.records.smoothed import Floats
from filters.prometheus.labels import ENTITY, HOST, Rows
from filters.prometheus.syntax import Family
from filters.text.quantities import LEAST

_BATCH_ROWS = 256  #: formatting so many takes 0.1 ms, for which no other thread of a server can run

_Item = TypeVar("_Item")
#: The family of a figure of a metric of a resource set, with these labels.
Naming = Callable[[str, Metric, str, tuple[str, ...]], Family]


class Batch(NamedTuple):
    """``planes`` holds float32 (n, m) by figure for ``metrics``, NaN where nothing is to be shown."""

    resource_set: str
    metrics: Sequence[Metric]
    single: bool  #: the rows are hosts
    texts: Sequence[str]
    template: str
    planes: Mapping[str, Floats]


def batch_of(resource_set: str, metrics: Sequence[Metric], rows: Sequence[Rows], planes: Mapping[str, Floats]) -> Batch:
    """A batch of the rows of several blocks, one behind the other."""
    texts = [text for one in rows for text in one.texts]
    return Batch(resource_set, metrics, rows[0].single, texts, "".join([one.template for one in rows]), planes)


def grouped(
    items: Iterable[_Item], key: Callable[[_Item], Hashable], size: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """The items of each key together, in lists of some hundred rows; ``size`` is how many an item has."""
    groups: dict[Hashable, tuple[list[_Item], list[int]]] = {}
    for item in items:
        members, sizes = groups.setdefault(key(item), ([], [0]))
        members.append(item)
        sizes[0] += size(item)
        if sizes[0] >= _BATCH_ROWS:
            yield groups.pop(key(item))[0]
    yield from (members for members, _ in groups.values())


def families(batches: Iterable[Batch], figures: Iterable[str], named: Naming) -> Iterator[tuple[Family, Iterator[str]]]:
    """Each family with the text of its series, batch by batch."""
    columns = _columns(batches)
    for figure in figures:
        for (resource_set, _), members in columns.items():
            present = [(batch, index) for batch, index in members if figure in batch.planes]
            if present:
                batch, index = present[0]
                family = named(resource_set, batch.metrics[index], figure, HOST if batch.single else ENTITY)
                yield family, (_text(batch, index, family.name, figure) for batch, index in present)


def first_of_each_name(metrics: Sequence[Metric]) -> list[int]:
    """A table that names two columns alike would make two series of one name: the first one counts."""
    first: dict[str, int] = {}
    for index, metric in enumerate(metrics):
        first.setdefault(metric.name, index)
    return list(first.values())


def _columns(batches: Iterable[Batch]) -> dict[tuple[str, str], list[tuple[Batch, int]]]:
    """The columns of all batches by resource set and metric."""
    columns: dict[tuple[str, str], list[tuple[Batch, int]]] = {}
    for batch in batches:
        for index in first_of_each_name(batch.metrics):
            columns.setdefault((batch.resource_set, batch.metrics[index].name), []).append((batch, index))
    return columns


def _text(batch: Batch, column: int, name: str, figure: str) -> str:
    """The lines of one column: 9 significant digits distinguish every float32. What is no normal number
    is what a moving average leaves of an event of long ago: 0."""
    values = batch.planes[figure][:, column]
    values = np.where(np.abs(values) < LEAST, np.float32(0.0), values)
    shown = np.isfinite(values)
    if shown.all():
        text = batch.template % tuple(values.tolist())
    else:
        pairs = zip(np.flatnonzero(shown).tolist(), values[shown].tolist(), strict=True)
        text = "".join([f"\n{{{batch.texts[row]}}} {value:.9g}" for row, value in pairs])
    return text.replace("\n", f"\n{name}")
