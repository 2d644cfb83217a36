"""Rows of blocks as text: cached labels, and figures formatted in batches.

Labels are kept while names are unchanged. A batch holds rows of several blocks with the same columns, so that many
hosts with one row each cost as much as a few with many rows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from acquisition.model.identity import is_own_name
from acquisition.model.metric import Metric, resource_set_id
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.names import Names
from acquisition.wire.records.smoothed import Floats
from filters.prometheus import syntax
from filters.prometheus.syntax import Family
from filters.text.quantities import LEAST

_BATCH_ROWS = 256  #: formatting takes 0.1 ms, during which no other thread of a server can run

_Item = TypeVar("_Item")
#: Family of a figure of a metric of a resource set, with these labels.
Naming = Callable[[str, Metric, str, tuple[str, ...]], Family]

HOST = ("host",)
ENTITY = ("host", "entity", "id")
SET = ("host", "resource_set")


class Rows(NamedTuple):
    """The rows of one block. ``texts``: their labels; ``template``: one text with a place for a number
    after the labels of each row; each row begins with a line feed, after which the name must be inserted.

    ``repeated`` marks rows with the id of an earlier row (damaged state), None if there are none.
    """

    names: Names | None
    ids: bytes
    host: str
    single: bool  #: only one row, the host itself
    texts: tuple[str, ...]
    template: str
    repeated: npt.NDArray[np.bool_] | None

    def hides(self, row: int) -> bool:
        """Whether a row is omitted: an earlier one has the same id."""
        return self.repeated is not None and bool(self.repeated[row])


class Prepared:
    """Cached ``Rows`` by (host id, resource set id); thread-safe."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, int], Rows] = {}

    def rows(self, block: Block, host: str) -> Rows:
        """The rows of a block of the host labelled ``host``."""
        key = (block.host_id, block.set_id)
        found = self._rows.get(key)
        ids = block.raw_ids
        if found is None or found.names is not block.names or found.host != host or found.ids != ids:
            found = self._rows[key] = _rows(block, ids, host)
        return found

    def forget(self, blocks: Sequence[Block]) -> None:
        """Drop cached rows of resource sets that are not among ``blocks``."""
        for key in self._rows.keys() - {(block.host_id, block.set_id) for block in blocks}:
            self._rows.pop(key, None)


def host_names(blocks: Iterable[Block]) -> dict[int, str]:
    """The ``host`` label of each host id: its name, or the id in hex.

    A name counts only if its identity equals the id that it came with: no host can take the name of another one, and
    with it its series.
    """
    names = {block.host_id: f"{block.host_id:016x}" for block in blocks}
    names.update((block.host_id, block.host) for block in blocks if is_own_name(block.host, block.host_id))
    return names


def set_names(blocks: Iterable[Block]) -> dict[int, str]:
    """The ``resource_set`` label of each resource set number: its name, by the same rule."""
    names = {block.set_id: f"{block.set_id:08x}" for block in blocks}
    names.update(
        (block.set_id, block.resource_set)
        for block in blocks
        if resource_set_id(syntax.encodable(block.resource_set)) == block.set_id
    )
    return names


def is_host(block: Block) -> bool:
    """Whether the only row of a block is the host itself."""
    return block.shape[0] == 1 and block.entities[0].kind == "host"


def _rows(block: Block, ids: bytes, host: str) -> Rows:
    single = is_host(block)
    if single:
        texts: tuple[str, ...] = (syntax.labels(HOST, (host,)),)
    else:
        texts = tuple(syntax.labels(ENTITY, (host, row.name, f"{row.id:016x}")) for row in block.entities)
    template = "".join([f"\n{{{text}}} %.9g" for text in (text.replace("%", "%%") for text in texts)])
    return Rows(block.names, ids, host, single, texts, template, _repeated(block.ids))


def _repeated(ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_] | None:
    _, first = np.unique(ids, return_index=True)
    if len(first) == len(ids):
        return None
    repeated = np.ones(len(ids), np.bool_)
    repeated[first] = False
    return repeated


# -- Batches.


class Batch(NamedTuple):
    """``planes``: float32 (n, m) by figure for ``metrics``, NaN for values that are not shown."""

    resource_set: str
    metrics: Sequence[Metric]
    single: bool  #: the rows are hosts
    texts: Sequence[str]
    template: str
    planes: Mapping[str, Floats]


def batch_of(resource_set: str, metrics: Sequence[Metric], rows: Sequence[Rows], planes: Mapping[str, Floats]) -> Batch:
    """A batch of the concatenated rows of several blocks."""
    texts = [text for one in rows for text in one.texts]
    return Batch(resource_set, metrics, rows[0].single, texts, "".join([one.template for one in rows]), planes)


def grouped(
    items: Iterable[_Item], key: Callable[[_Item], Hashable], size: Callable[[_Item], int]
) -> Iterator[list[_Item]]:
    """Items with equal keys together, in lists of some hundred rows; ``size``: number of rows of an item."""
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
    """Columns with distinct names: if a table repeats a name, the first one counts, to avoid duplicate series."""
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
    """The lines of one column: 9 significant digits distinguish every float32. Subnormal numbers
    are residues of old events in a moving average: 0."""
    values = batch.planes[figure][:, column]
    values = np.where(np.abs(values) < LEAST, np.float32(0.0), values)
    shown = np.isfinite(values)
    if shown.all():
        text = batch.template % tuple(values.tolist())
    else:
        pairs = zip(np.flatnonzero(shown).tolist(), values[shown].tolist(), strict=True)
        text = "".join([f"\n{{{batch.texts[row]}}} {value:.9g}" for row, value in pairs])
    return text.replace("\n", f"\n{name}")
