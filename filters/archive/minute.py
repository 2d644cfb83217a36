"""One minute of one series while it is open: its rollup, its invalid samples, and which frames it holds (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model.codes import CODE_MASK, FIRST, MISSING, VALID
from acquisition.wire.frame import Frame
from filters.archive import numbers
from filters.archive.episodes import Invalid
from filters.archive.numbers import Span
from filters.archive.rollup import Rollup
from filters.archive.values import MinuteMatrix, Series

_Cells = npt.NDArray[np.intp]
_Given = npt.NDArray[np.bool_]


class _Marked(NamedTuple):
    """The invalid samples of a frame: places, row by row, codes and raw values, one of each per sample."""

    time: float
    ids: bytes  #: of all rows
    cells: _Cells
    codes: npt.NDArray[np.integer[Any]]
    values: npt.NDArray[np.float32]


class Minute:
    """``first`` is the oldest stream entry that it holds a frame of; ``late``: it was closed before; ``kept`` are the
    columns that may get percentiles."""

    def __init__(
        self, series: Series, minute: int, metrics: int, first: bytes, late: bool, kept: Sequence[int] = ()
    ) -> None:
        self.series, self.minute, self.first, self.late = series, minute, first, late
        self.spans: list[Span] = []
        self.rollup = Rollup(metrics, () if late else kept)
        self._marked: list[_Marked] = []

    def add(self, frame: Frame, time: float, now: int) -> None:
        """Add a frame of samples whose tick began at ``time``; ``now`` is of its entry, in milliseconds."""
        values = np.frombuffer(frame.values, "<f4")
        if frame.codes:
            codes = np.frombuffer(frame.codes, np.uint8) & CODE_MASK
            cells = (codes != VALID).nonzero()[0]
            self._marked.append(_Marked(time, frame.ids, cells, codes[cells], values[cells]))
            values = values.copy()
            values[cells] = np.nan
        self.rollup.add(frame.tick, frame.ids, values.reshape(frame.entities, frame.metrics))
        numbers.extend(self.spans, frame.sequence, frame.made, frame.samples, now)

    def matrix(self, percentiles: Iterable[int]) -> MinuteMatrix:
        """What is written of it, with percentiles of these columns."""
        rollup = self.rollup
        rollup.keep_only(percentiles)
        late = rollup.samples if self.late else 0
        sketch = rollup.sketch()
        kept = None if sketch is None else sketch.encode()
        return MinuteMatrix(self.series, self.minute, rollup.tick, rollup.ids, rollup.planes(), late, sketch=kept)

    def invalid(self, before: _Given, provided: _Given, names: tuple[str, ...]) -> list[Invalid]:
        """The invalid samples in the order of their ticks, but those that are no fault: MISSING where the source has
        not ``provided`` anything by now, FIRST where it had not ``before`` this minute."""
        order = {key: row for row, key in enumerate(self.rollup.ids.tolist())}
        found: list[Invalid] = []
        held, ids, places = b"", np.zeros(0, np.uint64), np.zeros(0, np.intp)
        for time, here, cells, codes, values in sorted(self._marked, key=lambda marked: marked[0]):
            if here != held:  # mostly they are those of the frame before
                held, ids = here, np.frombuffer(here, "<u8")
                places = np.array([order[key] for key in ids.tolist()], np.intp)
            columns = cells % self.rollup.metrics
            entities = cells // self.rollup.metrics
            rows = places[entities]
            wanted = ((codes != MISSING) | provided[rows, columns]) & ((codes != FIRST) | before[rows, columns])
            parts = ids[entities[wanted]], columns[wanted], codes[wanted], values[wanted]
            found += [
                Invalid(time, entity, names[column], code, value)
                for entity, column, code, value in zip(*(part.tolist() for part in parts), strict=True)
            ]
        return found

    def missing(self) -> set[int]:
        """Columns in which a sample was MISSING."""
        if not self._marked:
            return set()
        cells = np.concatenate([one.cells[one.codes == MISSING] for one in self._marked])
        return set(np.unique(cells % self.rollup.metrics).tolist())
