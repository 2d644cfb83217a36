"""Open minute of one series: rollup, invalid samples, frames counted (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model.codes import FIRST, MISSING
from acquisition.wire.frame import Frame
from filters.archive.minutes import numbers
from filters.archive.minutes.episodes import COPIES, Invalid
from filters.archive.minutes.numbers import Span
from filters.archive.minutes.rollup import INVALID, Rollup
from filters.archive.minutes.values import Copy, MinuteMatrix, Series

_Given = npt.NDArray[np.bool_]


class _Marked(NamedTuple):
    """Invalid samples of a frame, as ``rollup.INVALID``."""

    time: float
    ids: bytes  #: of all rows
    samples: bytes


class Minute:
    """``first``: oldest stream entry with a frame in it; ``late``: it was closed before; ``kept``:
    columns that may get percentiles."""

    def __init__(
        self, series: Series, minute: int, metrics: int, first: bytes, late: bool, kept: Sequence[int] = ()
    ) -> None:
        self.series, self.minute, self.first, self.late = series, minute, first, late
        self.spans: list[Span] = []
        self.rollup = Rollup(metrics, () if late else kept)
        self._marked: list[_Marked] = []

    def add(self, frame: Frame, time: float, now: int) -> None:
        """Add a frame of samples with a tick that began at ``time``; ``now``: time of its entry, in milliseconds."""
        invalid = self.rollup.add(frame.tick, frame.ids, frame.values, frame.codes)
        if invalid:
            ids = self._marked[-1].ids if self._marked else frame.ids
            self._marked.append(_Marked(time, ids if ids == frame.ids else frame.ids, invalid))  # mostly one for all
        numbers.extend(self.spans, frame.sequence, frame.made, frame.samples, now)

    def matrix(self, percentiles: Iterable[int]) -> MinuteMatrix:
        """Matrix to write, with percentiles of these columns."""
        rollup = self.rollup
        rollup.keep_only(percentiles)
        late = rollup.samples if self.late else 0
        sketch = rollup.sketch()
        kept = None if sketch is None else sketch.encode()
        return MinuteMatrix(self.series, self.minute, rollup.tick, rollup.ids, rollup.planes(), late, sketch=kept)

    def invalid(self, before: _Given, provided: _Given, names: tuple[str, ...]) -> list[Invalid]:
        """Invalid samples ordered by their beginning, without those that are not faults: MISSING if the source
        has not ``provided`` any value so far, FIRST if it had not ``before`` this minute."""
        times, rows, columns, codes, values = self._all_marked()
        wanted = ((codes != MISSING) | provided[rows, columns]) & ((codes != FIRST) | before[rows, columns])
        if not wanted.any():
            return []
        times, rows, columns, codes, values = (part[wanted] for part in (times, rows, columns, codes, values))
        series = rows * self.rollup.metrics + columns
        order = np.argsort(series, kind="stable")
        series, kinds = series[order], codes[order]
        first = np.flatnonzero(np.r_[True, (series[1:] != series[:-1]) | (kinds[1:] != kinds[:-1])])
        after = np.r_[first[1:], len(order)]
        entities = self.rollup.ids[rows[order[first]]]
        in_time = np.argsort(order[first], kind="stable")
        times, values = times[order].tolist(), values[order].tolist()
        what = (entities, columns[order[first]], kinds[first], first, after)
        return [
            Invalid(times[low], times[high - 1], entity, names[column], code, high - low,
                    (*map(Copy, times[low : min(high, low + COPIES)], values[low : min(high, low + COPIES)]),))
            for entity, column, code, low, high in zip(*(part[in_time].tolist() for part in what), strict=True)
        ]  # fmt: skip

    def missing(self) -> set[int]:
        """Columns with a MISSING sample."""
        found = np.frombuffer(b"".join([one.samples for one in self._marked]), INVALID)
        cells = found["cell"][found["code"] == MISSING]
        return set(np.unique(cells % self.rollup.metrics).tolist())

    def _all_marked(self) -> tuple[npt.NDArray[Any], ...]:
        """Times, rows in the rollup, columns, codes and values of all invalid samples, ordered by tick."""
        marked = sorted(self._marked, key=lambda one: one.time)
        found = np.frombuffer(b"".join([one.samples for one in marked]), INVALID)
        counts = [len(one.samples) // INVALID.itemsize for one in marked]
        cells, metrics = found["cell"].astype(np.intp), self.rollup.metrics
        rows, at = cells // metrics, 0
        for ids, group in groupby(zip(marked, counts, strict=True), lambda pair: pair[0].ids):
            until = at + sum([count for _, count in group])
            rows[at:until] = self.rollup.rows_of(ids)[rows[at:until]]
            at = until
        times = np.repeat([one.time for one in marked], counts)
        return times, rows, cells % metrics, found["code"], found["value"]
