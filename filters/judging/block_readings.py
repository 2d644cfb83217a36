"""The readings of one row of a block, made when they are asked for: rules look at few of many metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol, TypeVar, overload

from acquisition.model import codes
from acquisition.snapshot.block import Block
from acquisition.snapshot.rows import finite
from acquisition.wire.planes import OWN
from filters.decisions.picture import Reading

#: Makes a reading of others of the same row; None where one of them is missing.
Derive = Callable[[Mapping[str, Reading]], Reading | None]


_Default = TypeVar("_Default")


class Inputs(Protocol):
    """What the filter computed beside the moving averages, where it did."""

    def complete(self, block: Block, row: int, metric: str, reading: Reading | None) -> Reading | None:
        """The reading with decision inputs and recent values; for a metric that the filter derived and no
        frame carries (``reading`` is None) the whole of it, or None."""
        ...


Columns = Mapping[str, tuple[int, str]]  #: by metric name, with their units


class ColumnCache:
    """The columns of blocks: thousands of hosts send the same ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool], Columns] = {}

    def of(self, block: Block) -> Columns:
        """The columns of a block by name."""
        key = (block.schema, block.names is None)
        found = self._known.get(key)
        if found is None:
            found = {metric.name: (column, metric.unit) for column, metric in enumerate(block.metrics)}
            self._known[key] = found
        return found


class _Planes(NamedTuple):
    """The values of a block by row and column, decoded once; numbers of lists are much faster than those of arrays. How
    old the last valid value may be is for each rule to say, so averages are those that are stored."""

    own: list[list[list[float]]]  #: by figure, as acquisition.wire.planes.OWN
    extra: dict[str, list[list[float]]]  #: the figures of further kernels
    codes: list[list[int]]
    stale: list[list[float]]


class BlockReadings:
    """A block as the readings of its rows share it."""

    def __init__(self, block: Block, inputs: Inputs | None, columns: ColumnCache) -> None:
        self.block = block
        self.inputs = inputs
        self.columns = columns.of(block)
        self.age = finite(block.age_seconds)
        self._planes: _Planes | None = None

    def planes(self) -> _Planes:
        """The values."""
        if self._planes is None:
            block = self.block
            own = [plane.figures(block.plane(plane.name)).tolist() for plane in OWN]
            extra = {plane.figure: plane.figures(block.plane(plane.name)).tolist() for plane in block.extra_planes}
            self._planes = _Planes(own, extra, block.codes().tolist(), block.stale_seconds().tolist())
        return self._planes

    def reading(self, row: int, metric: str) -> Reading | None:
        """One metric of one row, as the smoothed state has it."""
        found = self.columns.get(metric)
        if found is None:
            return None
        column, unit = found
        planes = self.planes()
        mean, deviation, trend, last = (finite(plane[row][column]) for plane in planes.own)
        return Reading(
            metric, mean, deviation, trend, last, codes.name_of(planes.codes[row][column]), self.age,
            finite(planes.stale[row][column]), unit=unit, interval=self.block.interval or 1.0,
            extra={name: finite(plane[row][column]) for name, plane in planes.extra.items()},
        )  # fmt: skip


class RowReadings(Mapping[str, Reading]):
    """Readings of a row by metric, those of the tables and derived ones.

    ``derived`` makes what neither the smoothed state nor the filter's inputs have.
    """

    def __init__(self, view: BlockReadings, row: int, derived: Mapping[str, Derive]) -> None:
        self._view = view
        self._row = row
        self._derived = derived
        self._made: dict[str, Reading | None] = {}

    def __getitem__(self, metric: str) -> Reading:
        found = self.get(metric)
        if found is None:
            raise KeyError(metric)
        return found

    @overload
    def get(self, metric: str, /) -> Reading | None: ...
    @overload
    def get(self, metric: str, /, default: Reading | _Default) -> Reading | _Default: ...
    def get(self, metric: str, /, default: Reading | _Default | None = None) -> Reading | _Default | None:
        """The reading, without the exception that Mapping.get raises within for every one that is missing."""
        found = self._made[metric] if metric in self._made else self._make(metric)
        return default if found is None else found

    def _make(self, metric: str) -> Reading | None:
        self._made[metric] = None  # what is derived from itself is missing
        view = self._view
        found = view.reading(self._row, metric)
        if view.inputs is not None:
            found = view.inputs.complete(view.block, self._row, metric, found)
        if found is None and metric in self._derived:
            found = self._derived[metric](self)
        self._made[metric] = found
        return found

    def __iter__(self) -> Iterator[str]:
        known = (*self._view.columns, *self._derived)
        return (metric for metric in dict.fromkeys(known) if self.get(metric) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)
