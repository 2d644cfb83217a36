"""Matrix of one metric over all hosts, as numpy arrays for schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.rows import Selection
from acquisition.snapshot.values.states import STATES
from acquisition.wire.records.planes import LAST, MEAN, TREND, VARIANCE
from acquisition.wire.records.smoothed import Floats

_PLANES = (MEAN, LAST, VARIANCE, TREND)
_DTYPES = ("u8", "u8", "f4", "f4", "f4", "f4", "u1", "f4", "f8", "i8", "u1")


class Matrix(NamedTuple):
    """Columns of equal length n, one element per entity.

    ``mean last variance trend`` float32, NaN if there is no value; ``codes`` uint8 (acquisition.model.codes);
    ``stale`` float32 seconds since the last valid value (infinite: never); ``age`` float64 seconds since
    the tick was sampled; ``state`` uint8, an index into acquisition.snapshot.values.states.STATES; ``ids`` uint64;
    ``tick`` int64; ``host_ids`` uint64. ``extra`` are the figures of further kernels by name
    (acquisition.wire.records.planes), float32, NaN if there is no value.
    """

    hosts: list[str]
    entities: list[str]
    host_ids: npt.NDArray[np.uint64]
    ids: npt.NDArray[np.uint64]
    mean: Floats
    last: Floats
    variance: Floats
    trend: Floats
    codes: npt.NDArray[np.uint8]
    stale: Floats
    age: npt.NDArray[np.float64]
    tick: npt.NDArray[np.int64]
    state: npt.NDArray[np.uint8]
    extra: Mapping[str, Floats] = {}


class _Cut(NamedTuple):
    """Wanted part of a block: ``height`` rows of one column."""

    block: Block
    column: int
    rows: slice | list[int]
    height: int


def matrix_of(blocks: Iterable[Block], selection: Selection, metric: str) -> Matrix:
    """Matrix of one metric; resource sets without it contribute nothing."""
    hosts: list[str] = []
    entities: list[str] = []
    cuts: list[_Cut] = []
    for block in blocks:
        if not selection.takes_block(block.host, block.host_id, block.resource_set, block.set_id):
            continue
        column = next((i for i, each in enumerate(block.metrics) if each.name == metric), None)
        if column is None:
            continue
        members = block.entities
        rows: slice | list[int] = slice(None)
        if selection.entities is not None:
            chosen = [i for i, entity in enumerate(members) if selection.takes_entity(entity)]
            members, rows = [members[i] for i in chosen], chosen
        hosts += [block.host] * len(members)
        entities += [entity.name for entity in members]
        cuts.append(_Cut(block, column, rows, len(members)))
    if not cuts:
        return Matrix._make([[], [], *(np.empty(0, dtype) for dtype in _DTYPES), {}])
    columns = (np.concatenate(column) for column in zip(*map(_columns, cuts), strict=True))
    return Matrix._make([hosts, entities, *columns, _extra(cuts)])


def _columns(cut: _Cut) -> tuple[npt.NDArray[Any], ...]:
    """The arrays of one block, in the order of Matrix."""
    block, column, rows, height = cut
    return (
        np.full(height, block.host_id, np.uint64),
        block.ids[rows],
        *(block.shown(plane)[rows, column] for plane in _PLANES),
        block.codes()[rows, column],
        block.stale_seconds()[rows, column],
        np.full(height, block.age_seconds),
        np.full(height, block.tick, np.int64),
        np.full(height, STATES.index(block.state), np.uint8),
    )


def _extra(cuts: Sequence[_Cut]) -> dict[str, Floats]:
    """Figures of further kernels in any block: filters may differ in what they keep."""
    found = dict.fromkeys(plane for cut in cuts for plane in cut.block.extra_planes)
    return {
        plane.figure: np.concatenate([cut.block.figure(plane)[cut.rows, cut.column] for cut in cuts]) for plane in found
    }
