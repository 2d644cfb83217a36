"""A survey: one resource set of all hosts at the coherent tick, as arrays, for questions to very many hosts at once.

Most hosts are as they should be: their record and their decision inputs are there, of the tick that is due, and
sound. Of these ``column`` gives the figures of a metric without building an object per host; the others (late, down,
damaged, without decision inputs, or merely unusual) are not ``known``. ``SnapshotReader.details`` gives chosen hosts in
full, of the same moment, for nothing is read twice::

    survey = reader.survey("host")
    column = survey.column("cpu_busy_ratio")
    snapshot, inputs = reader.details(survey, ~(column.known & (column.mean < 0.5)))
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError, ShardpulseError
from acquisition.model import codes
from acquisition.snapshot.column import Bools, Column, Doubles
from acquisition.snapshot.record_arrays import Group, dtype_of, groups_of
from acquisition.snapshot.survey_reading import Taken
from acquisition.wire import inputs as wire
from acquisition.wire import smoothed

_SMOOTHED = dtype_of(smoothed.HEADER_FIELDS)
_INPUTS = dtype_of(wire.HEADER_FIELDS)
#: Fields in which records of decision inputs must agree to be looked at together.
_SHAPE = ("magic", "version", "columns", "derived", "entities", "window", "depth", "names_size", "counted", "plateau")
_MOST_SHAPES = 8  #: of one length; whoever has yet another is not known


class _Part(NamedTuple):
    """Decision inputs of one shape: ``head`` is that of one of them."""

    group: Group
    head: wire.Head
    names: tuple[str, ...]


class Survey:
    """What ``SnapshotReader.survey`` found. ``hosts`` uint64 (N,) are ids; ``tick`` is the newest that was
    due, ``errors`` what could not be read."""

    def __init__(self, taken: Taken, errors: Sequence[ShardpulseError] = ()) -> None:
        self.taken = taken
        self.errors = tuple(errors)
        self.hosts: npt.NDArray[np.uint64] = taken.table.hosts[taken.rows]
        self.tick = int(taken.ticks.max(initial=0))
        self._parts = list(_parts(taken))
        self._sound, self._flawless = self._judge()

    def column(self, metric: str) -> Column:
        """One metric; nobody is known of whom the filter computes no decision inputs for it."""
        count = len(self.hosts)
        known = np.zeros(count, np.bool_)
        warming = np.zeros(count, np.bool_)
        figures = {
            name: np.full(count, np.nan) for name in ("last", "stale_seconds", "window", "plateau", *wire.PLANES)
        }
        for part in self._parts:
            if metric not in part.names:
                continue
            rows, column = part.group.rows, part.names.index(metric)
            at = wire.cells(part.head, column, 0)
            for place, name in enumerate(wire.PLANES[: wire.plane_count(part.head.plateau)]):
                figures[name][rows] = part.group.numbers("<f4", at.planes + 4 * at.stride * place)
            figures["window"][rows], figures["plateau"][rows] = part.head.window, part.head.plateau
            warming[rows] = part.group.numbers("<u2", at.seen) < part.head.window
            known[rows] = _take_last(part, column, figures, self._flawless[rows])
        known &= self._sound
        for each in figures.values():
            each[~known] = np.nan
        return Column(known, figures["mean"], figures["last"], figures["stale_seconds"], figures, warming & known)

    def _judge(self) -> tuple[Bools, Bools]:
        """Who is as it should be (N,), just as ``judgement.judge_coherent`` and ``inputs.read_inputs`` see it, with
        one row; and who of these has no invalid sample."""
        taken, count = self.taken, len(self.hosts)
        heads, ids = np.zeros(count, _SMOOTHED), np.zeros(count, np.uint64)
        for group in groups_of(taken.records, smoothed.HEADER_SIZE + 8):
            heads[group.rows] = group.heads(_SMOOTHED)
            ids[group.rows] = group.numbers("<u8", smoothed.HEADER_SIZE)
            heads["entities"][group.rows[~_is_whole(group)]] = 0
        beside, ids_beside = np.zeros(count, _INPUTS), np.zeros(count, np.uint64)
        for part in self._parts:
            beside[part.group.rows] = part.group.heads(_INPUTS)
            ids_beside[part.group.rows] = part.group.numbers("<u8", wire.HEADER.size)
        positions = taken.table.records[taken.rows]
        sets = np.full(count, taken.set_id)
        good = (heads["entities"] == 1) & (beside["entities"] == 1) & (ids == ids_beside) & (taken.intervals > 0.0)
        good &= heads["sequence"] == beside["sequence"]
        for name, wanted in (
            ("host", self.hosts), ("resource_set", sets), ("epoch", positions["epoch"]), ("tick", taken.ticks),
        ):  # fmt: skip
            good &= (heads[name] == wanted) & (beside[name] == wanted)
        good &= heads["filtered"] >= (taken.ticks - 1) * taken.intervals
        return good, good & (heads["exceptions"] == 0)


def _is_whole(group: Group) -> Bools:
    """Where ``smoothed.check`` finds a record of one row, (k,)."""
    heads, length = group.heads(_SMOOTHED), group.data.shape[1]
    planes, metrics, count = (heads[name].astype(np.int64) for name in ("plane_count", "metrics", "exceptions"))
    whole = _words(heads["magic"]) == int.from_bytes(smoothed.MAGIC, "little")
    whole &= (heads["version"] >= smoothed.VERSIONS[0]) & (heads["version"] <= smoothed.VERSIONS[-1])
    whole &= (planes >= 1) & (planes <= smoothed.MAX_PLANES)
    whole &= smoothed.HEADER_SIZE + 8 + 4 * metrics * planes + smoothed.EXCEPTION.itemsize * count == length
    for number in np.unique(count[whole & (count > 0)]).tolist():
        here = np.flatnonzero(whole & (count == number))
        start = length - smoothed.EXCEPTION.itemsize * number
        listed = np.ascontiguousarray(group.data[here, start:]).view(smoothed.EXCEPTION)
        whole[here] &= (listed["index"] < metrics[here, None]).all(axis=1)
    return np.asarray(whole)


def _parts(taken: Taken) -> Iterator[_Part]:
    """The decision inputs by shape; what is damaged is in none."""
    for group in groups_of(taken.inputs, wire.HEADER.size + 8):
        left = group
        for _ in range(_MOST_SHAPES):
            if not len(left.rows):
                break
            alike = _alike(left)
            part = left.pick(alike)
            left = left.pick(~alike)
            try:
                data = part.data[0].tobytes()
                head = wire.check(data)
            except FrameError:
                continue
            yield _Part(part, head, wire.names_of(head, data))


def _alike(group: Group) -> Bools:
    """Who has the shape and the names of the first, (k,)."""
    heads = group.heads(_INPUTS)
    alike = np.ones(len(heads), np.bool_)
    for name in _SHAPE:
        values = _words(heads[name]) if name == "magic" else heads[name]
        alike &= values == values[0]
    tail = group.data.shape[1] - min(int(heads["names_size"][0]), group.data.shape[1])
    return np.asarray(alike & (group.data[:, tail:] == group.data[0, tail:]).all(axis=1))


def _take_last(part: _Part, column: int, figures: Mapping[str, Doubles], flawless: Bools) -> Bools:
    """Put in what the smoothed record would say, for derived metrics; who is known then, (k,)."""
    rows, place = part.group.rows, column - (part.head.columns - part.head.derived)
    if place < 0:
        figures["stale_seconds"][rows] = 0.0
        return flawless & np.isfinite(figures["mean"][rows])
    at = wire.derived_cells(part.head, place, 0)
    stale = wire.DERIVED_PLANES.index("age")
    valid = (part.group.data[:, at.code] & codes.CODE_MASK) == codes.VALID
    figures["last"][rows] = np.where(valid, part.group.numbers("<f4", at.planes), np.nan)
    figures["stale_seconds"][rows] = part.group.numbers("<f4", at.planes + 4 * at.stride * stale)
    return np.isfinite(figures["mean"][rows])


def _words(values: npt.NDArray[np.void]) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(values).view("<u4")
