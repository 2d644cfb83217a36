"""A survey: one resource set of all hosts at the coherent tick, as arrays, for questions to very many hosts at once.

Each host's own newest tick can be asked for instead, where that is newer. Most hosts are as they should be: their
record is there with its decision inputs, of that tick, and sound. Of these ``column`` gives the figures of a metric
without building an object per host; the others (late, down, damaged, without decision inputs, or merely unusual) are
not ``known``. ``SnapshotReader.details`` gives chosen hosts in full, of the same moment, for nothing is read twice::

    survey = reader.survey("host")
    column = survey.column("cpu_busy_ratio")
    snapshot, inputs = reader.details(survey, ~(column.known & (column.mean < 0.5)))
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.errors import FrameError, ShardpulseError
from acquisition.model import codes, ticks
from acquisition.snapshot.block import Block
from acquisition.snapshot.column import Bools, Column, Doubles
from acquisition.snapshot.partition_reading import Slotted
from acquisition.snapshot.record_arrays import Group, Rows, dtype_of, offset_of
from acquisition.snapshot.shard_reading import Member
from acquisition.snapshot.survey_reading import Taken
from acquisition.wire import inputs as wire
from acquisition.wire import smoothed

_HEAD = dtype_of(smoothed.HEADER_FIELDS)
#: Of the header of a section: what its shape depends on, from the first byte on.
_SHAPE_BYTES = offset_of(dtype_of(wire.HEADER_FIELDS), "step")
_OF_SHAPES = ("window", "plateau", "counted_of", "threshold")  #: planes of a column that shapes say
_MOST_SHAPES = 8  #: of one length; whoever has yet another is not known


class _Part(NamedTuple):
    """Sound records of one row and one shape: ``whole`` and ``head`` are the headers of one of them and of its
    section, ``section`` is decoded; all have its ``names`` and ``sources``."""

    group: Group
    whole: smoothed.Head
    section: wire.Section

    @property
    def places(self) -> wire.Places:
        """Where the parts of a section lie, from the start of the record."""
        return wire.Places._make(smoothed.HEADER_SIZE + at for at in self.section.head.places(1))


class Survey:
    """What ``SnapshotReader.survey`` found. ``hosts`` uint64 (N,) are ids; ``tick`` is the newest that was
    due, ``errors`` what could not be read."""

    def __init__(
        self,
        taken: Taken,
        errors: Sequence[ShardpulseError] = (),
        before: Survey | None = None,
        changed: Bools | None = None,
    ) -> None:
        """With ``changed`` (N,) only these rows are others than in the survey ``before``, of the same hosts."""
        self.taken = taken
        self.errors = tuple(errors)
        self.hosts: npt.NDArray[np.uint64] = taken.table.hosts[taken.rows]
        self.tick = taken.tick
        self._columns: dict[str, Column] = {}
        self._found: list[_Part] | None = None
        if before is None or changed is None:
            self._heads = np.zeros(len(self.hosts), _HEAD)
            self._sound = self._judge()
        else:
            self._take_over(before, np.flatnonzero(changed))

    def _take_over(self, before: Survey, places: Rows) -> None:
        """Judge the rows at ``places`` (k,); all others are as they were."""
        part = Survey(self.taken.of(places))
        self._heads, self._sound = before._heads.copy(), before._sound.copy()
        self._heads[places], self._sound[places] = part._heads, part._sound
        for metric, column in before._columns.items():
            self._columns[metric] = column.with_rows(places, part.column(metric))

    def column(self, metric: str) -> Column:
        """One metric; nobody is known of whom the filter computes no decision inputs for it."""
        found = self._columns.get(metric)
        if found is None:
            found = self._columns[metric] = self._column(metric)
        return found

    def _column(self, metric: str) -> Column:
        count = len(self.hosts)
        flawless = self._sound & (self._heads["exceptions"] == 0)
        known = np.zeros(count, np.bool_)
        warming = np.zeros(count, np.bool_)
        figures = {name: np.full(count, np.nan) for name in ("mean", "last", "stale_seconds", *_OF_SHAPES, *wire.KEPT)}
        for part in self._parts:
            names, head, at, rows = part.section.names, part.section.head, part.places, part.group.rows
            if metric not in names:
                continue
            column = names.index(metric)
            for plane, name in enumerate(wire.figure_names(head.figures)):
                figures[name][rows] = part.group.numbers("<f4", at.figures + 4 * (plane * head.columns + column))
            for plane, name in enumerate(wire.COUNTS):
                figures[name][rows] = part.group.data[:, at.counts + plane * head.columns + column]
            figures["window"][rows], figures["plateau"][rows] = head.window, head.plateau
            figures["counted_of"][rows] = head.counted
            figures["threshold"][rows] = part.group.numbers("<f4", at.thresholds + 4 * column)
            warming[rows] = part.group.data[:, at.seen] < head.window
            known[rows] = _take_averages(part, column, figures, flawless[rows])
        known &= self._sound
        for each in figures.values():
            each[~known] = np.nan
        return Column(known, figures["mean"], figures["last"], figures["stale_seconds"], figures, warming & known)

    @property
    def sound(self) -> Bools:
        """Who is as it should be (N,)."""
        return self._sound

    def current(self, wanted: Bools) -> dict[int, Block]:
        """The blocks of those hosts that are ``wanted`` (N,) and as they should be, without names, by the rows of the
        table of positions."""
        return self.blocks(np.flatnonzero(wanted & self._sound))

    def blocks(self, at: Rows | Sequence[int]) -> dict[int, Block]:
        """The same of hosts at these places (k,), which are as they should be."""
        table = self.taken.table
        at = np.asarray(at, np.intp)
        heads, rows = self._heads[at], self.taken.rows[at].tolist()
        ids_at = smoothed.HEADER_SIZE + heads["inputs_size"].astype(np.int64)
        columns = [heads[name].tolist() for name in ("schema", "tick", "wall", "filtered")]
        whose = zip(rows, at.tolist(), ids_at.tolist(), self.taken.intervals[at].tolist(), *columns, strict=True)
        found = {}
        for row, index, ids, interval, schema, *times in whose:
            data = self.taken.records[index] or b""
            found[row] = Block.current(
                table.members[row], table.data[row], data, data[ids : ids + 8], schema, interval, *times
            )
        return found

    def rows_at(self, at: Rows) -> list[tuple[Member, int, bytes]]:
        """Of each of them who it is, the hash of its columns and its rows."""
        taken, heads = self.taken, self._heads[at]
        ids_at = smoothed.HEADER_SIZE + heads["inputs_size"].astype(np.int64)
        whose = zip(at.tolist(), taken.rows[at].tolist(), heads["schema"].tolist(), ids_at.tolist(), strict=True)
        members, records = taken.table.members, taken.records
        return [(members[row], schema, (records[index] or b"")[ids : ids + 8]) for index, row, schema, ids in whose]

    def records(self, wanted: Bools, current: Container[int]) -> dict[str, Slotted]:
        """What was read of those hosts that are ``wanted`` (N,) and not ``current``, by the prefix of their members."""
        taken, keep_ticks = self.taken, self.taken.due.keep_ticks
        return {
            taken.table.members[row].prefix: (ticks.slot_of(int(taken.ticks[at]), keep_ticks), taken.records[at])
            for at in np.flatnonzero(wanted & taken.answered).tolist()
            if (row := int(taken.rows[at])) not in current
        }

    @property
    def _parts(self) -> Sequence[_Part]:
        if self._found is None:
            self._found = list(_parts(self.taken))
        return self._found

    def _judge(self) -> Bools:
        """Who is as it should be (N,), just as ``judgement.judge_coherent`` and ``inputs.table_of`` see it, with
        one row."""
        taken, count = self.taken, len(self.hosts)
        heads, good = self._heads, np.zeros(count, np.bool_)
        for part in self._parts:
            heads[part.group.rows] = part.group.heads(_HEAD)
            good[part.group.rows] = _exceptions_fit(part)
        epochs = taken.table.records["epoch"][taken.rows]
        good &= taken.intervals > 0.0
        for name, wanted in (
            ("host", self.hosts), ("resource_set", taken.set_id), ("epoch", epochs), ("tick", taken.ticks),
        ):  # fmt: skip
            good &= heads[name] == wanted
        good &= heads["filtered"] >= (taken.ticks - 1) * taken.intervals
        return good


def _parts(taken: Taken) -> Iterator[_Part]:
    """The records of one row by shape; what is damaged, or has no decision inputs, is in none."""
    for group in taken.records.groups(smoothed.HEADER_SIZE + wire.HEADER.size):
        left = group
        for _ in range(_MOST_SHAPES):
            if not len(left.rows):
                break
            alike, part = _alike(left)
            left = left.pick(~alike)
            if part is not None:
                yield part


def _alike(group: Group) -> tuple[Bools, _Part | None]:
    """Who has the shape and the names of the first (k,), and these as a part if they are sound."""
    data = group.data[0].tobytes()
    try:
        whole = smoothed.check(data)
        section = wire.decode(smoothed.section(data, whole), whole.entities)
        size = section.head.places(whole.entities)
    except FrameError:
        return np.arange(len(group.rows)) == 0, None
    start = smoothed.HEADER_SIZE
    alike = np.ones(len(group.rows), np.bool_)
    for first, end in (
        (0, offset_of(_HEAD, "host")),
        (offset_of(_HEAD, "inputs_size"), offset_of(_HEAD, "epoch")),
        (start, start + _SHAPE_BYTES),
        (start + size.sources, start + size.seen),
        (start + size.names, start + size.size),
    ):
        alike &= (group.data[:, first:end] == group.data[0, first:end]).all(axis=1)
    return alike, _Part(group.pick(alike), whole, section) if whole.entities == 1 else None


def _exceptions_fit(part: _Part) -> Bools:
    """Where all exceptions lie within the matrix, (k,)."""
    if not part.whole.exceptions:
        return np.ones(len(part.group.rows), np.bool_)
    listed = np.ascontiguousarray(part.group.data[:, part.whole.exceptions_at :]).view(smoothed.EXCEPTION)
    return np.asarray((listed["index"] < part.whole.metrics).all(axis=1))


def _take_averages(part: _Part, column: int, figures: Mapping[str, Doubles], flawless: Bools) -> Bools:
    """Put in what a reading says beside decision inputs; who is known then, (k,)."""
    rows, head, at = part.group.rows, part.section.head, part.places
    place = column - (head.columns - head.derived)
    if place < 0:
        for name in ("mean", "last"):
            figures[name][rows] = _plane(part, name, int(part.section.sources[column]))
        figures["stale_seconds"][rows] = 0.0
        return flawless & np.isfinite(figures["mean"][rows])
    valid = (part.group.data[:, at.codes + place] & codes.CODE_MASK) == codes.VALID
    planes = {
        name: part.group.numbers("<f4", at.derived + 4 * (plane * head.derived + place))
        for plane, name in enumerate(wire.DERIVED_PLANES)
    }
    figures["mean"][rows], figures["stale_seconds"][rows] = planes["mean"], planes["age"]
    figures["last"][rows] = np.where(valid, planes["last"], np.nan)
    return np.isfinite(figures["mean"][rows])


def _plane(part: _Part, name: str, column: int) -> Doubles:
    """A smoothed plane of a column of the frame, (k,); NaN where there is none."""
    names = [plane.name for plane in part.whole.planes]
    if name not in names or column >= part.whole.metrics:
        return np.full(len(part.group.rows), np.nan)
    at = part.whole.planes_at + 4 * (names.index(name) * part.whole.metrics + column)
    return part.group.numbers("<f4", at).astype(np.float64)
