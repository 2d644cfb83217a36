"""Decision input state of one (host, resource set) in a worker's memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.wire.frame import Frame
from acquisition.wire.records import inputs as wire
from acquisition.wire.records.inputs import Bytes, Floats
from filters.worker.inputs.growing import Also
from filters.worker.inputs.order import ABSENT
from filters.worker.inputs.plan import Plan
from filters.worker.inputs.ring import Ring
from filters.worker.inputs.rows import who_stayed

VALID, COUNTED, ABOVE = map(wire.COUNTS.index, ("valid", "counted", "above"))
MEAN, AGE = map(wire.DERIVED_PLANES.index, ("mean", "age"))
CUSUM, TIME_ABOVE = map(wire.FIGURES.index, wire.ALWAYS_KEPT)
PADDING = 8  #: sorted windows of the native step have a multiple of this many places
LONGEST = 1e9  #: maximum of seconds covered by a sample, whatever a frame says
#: Seconds between two frames; a shorter time, or a clock that went back, is a new beginning: seconds are float32 in a
#: batch, and slopes per second would not be finite.
SHORTEST = 1e-9
GAP = 1.5  #: intervals between two frames; with more, a tick between them never came
_UNKNOWN = np.float32(np.nan)
_LEARNED = wire.BURST_FIGURES.index("slot")  #: from here on learned values, kept when the probe restarts

#: (memory, plan, dt, seconds, step, first, missing, begins, row_prefix, capacity, rows_at)
NativeInputs = tuple[bytearray, bytes | None, float, float, int, int, int, bool, bytes, int, int]


class Arrays(NamedTuple):
    """Views of the memory of E entities in C columns, those of the section (wire.records.inputs) first: ``since``
    float64 (E,), ``figures`` float32 (F, C, E), ``derived`` float32 (5, D, E), ``bursts`` float32 (B, E), ``seen``
    uint8 (E,), ``counts`` uint8 (3, C, E), ``codes`` uint8 (D, E).

    ``window`` float32 (C, n, E): place ``step % n`` has the newest raw values, ABSENT if not valid;
    ``lately`` float32 (m, C, E): the last m valid ones, the newest first, NaN if there were fewer; ``ordered``
    float32 (C, E, places): the window in ascending order, kept so only by the native step, with 0 places without
    order statistics; ``slots`` uint32 (E,): places in the ring.
    """

    since: npt.NDArray[np.float64]
    figures: Floats
    derived: Floats
    bursts: Floats
    seen: Bytes
    counts: Bytes
    codes: Bytes
    window: Floats
    lately: Floats
    ordered: Floats
    slots: npt.NDArray[np.uint32]


class Begun(NamedTuple):
    """Beginning of a frame for the inputs: seconds since the previous frame, seconds covered by each of its samples,
    and number of ticks before it that never came."""

    dt: float
    seconds: float
    missing: int


class _Blank(NamedTuple):
    """Initial memory without values; ``plan`` is referenced so that no other one gets its ``id``."""

    plan: Plan
    memory: bytes


#: By the plan's id and the number of entities: many hosts are of one kind, and start together.
_BLANKS: dict[tuple[int, int], _Blank] = {}
_MOST_BLANKS, _MOST_BLANK_ENTITIES = 16, 1024  #: each takes half a megabyte at most


class InputsState:
    """``memory`` is one block, beginning with the section of the next record: the native step uses it as a whole.

    ``step`` counts ticks from 1, including those that never came; ``first``: the step from which windows have
    values; ``begins``: nothing was known before the newest step.
    """

    __slots__ = ("begins", "epoch", "first", "ids", "memory", "monotonic", "plan", "ring", "step")

    def __init__(self, plan: Plan, ring: Ring, step: int = 0) -> None:
        self.plan = plan
        self.ring = ring
        self.epoch = 0
        self.monotonic = 0.0
        self.begins = False
        self.step = self.first = step
        self.ids, self.memory = b"", bytearray()  #: laid out by the first frame, or by ``restore``

    def arrays(self) -> Arrays:
        """Views of the kept arrays."""
        plan, entities = self.plan, len(self.ids) // 8
        at, c, d = plan.head.places(entities), plan.columns, len(plan.derived)
        figures, places = len(wire.figure_names(plan.head.figures)), _places(plan)
        window = at.size
        lately = window + 4 * plan.window * c * entities
        ordered = lately + 4 * plan.plateau * c * entities
        slots = ordered + 4 * places * c * entities
        return Arrays(
            self._view("<f8", at.since, entities),
            self._view("<f4", at.figures, figures, c, entities),
            self._view("<f4", at.derived, len(wire.DERIVED_PLANES), d, entities),
            self._view("<f4", at.bursts, plan.head.bursts, entities),
            self._view("u1", at.seen, entities),
            self._view("u1", at.counts, len(wire.COUNTS), c, entities),
            self._view("u1", at.codes, d, entities),
            self._view("<f4", window, c, plan.window, entities),
            self._view("<f4", lately, plan.plateau, c, entities),
            self._view("<f4", ordered, c, entities, places),
            self._view("<u4", slots, entities),
        )

    def _view(self, dtype: str, start: int, *shape: int) -> npt.NDArray[Any]:
        count = 1
        for size in shape:
            count *= size
        return np.frombuffer(self.memory, dtype, count, start).reshape(shape)

    def _lay_out(self, ids: bytes) -> Arrays:
        """Memory without values for these entities: a copy of the last one of this size."""
        plan, entities, self.ids = self.plan, len(ids) // 8, ids
        blank = _BLANKS.get((id(plan), entities))
        if blank is not None:
            self.memory = bytearray(blank.memory)
            return self.arrays()
        kept = self._make_memory(entities)
        if entities <= _MOST_BLANK_ENTITIES:
            if len(_BLANKS) >= _MOST_BLANKS:
                _BLANKS.clear()
            _BLANKS[id(plan), entities] = _Blank(plan, bytes(self.memory))
        return kept

    def _make_memory(self, entities: int) -> Arrays:
        plan = self.plan
        at, series = plan.head.places(entities), plan.columns * entities
        floats = (plan.window + plan.plateau + _places(plan)) * series
        self.memory = bytearray(at.size + 4 * (floats + entities))
        self._put(0, wire.HEADER.pack(*plan.head))
        self._put(at.thresholds, plan.thresholds.tobytes())
        self._put(at.slacks, plan.slacks.tobytes())
        self._put(at.sources, np.array(plan.sources, "<u2").tobytes())
        self._put(at.names, wire.pack_names(plan.names))
        kept = self._forget()
        kept.bursts[...] = 0.0
        return kept

    def _put(self, at: int, data: bytes) -> None:
        self.memory[at : at + len(data)] = data

    def _forget(self) -> Arrays:
        """Reset everything except the identity of rows and their learned bursts."""
        kept = self.arrays()
        for array in (kept.since, kept.figures[: TIME_ABOVE + 1], kept.seen, kept.counts, kept.codes):
            array[...] = 0
        for array in (kept.figures[TIME_ABOVE + 1 :], kept.derived, kept.lately):
            array[...] = _UNKNOWN
        kept.derived[AGE] = 0.0
        kept.bursts[:_LEARNED] = 0.0
        for array in (kept.window, kept.ordered):
            array[...] = ABSENT
        return kept

    def native(self, frame: Frame, also: Also) -> NativeInputs:
        """``begin``, and the arguments of the native step after it."""
        dt, seconds, missing = self.begin(frame, also)
        plan, ring = self.plan, self.ring
        return (
            self.memory,
            plan.packed,
            dt,
            seconds,
            self.step,
            self.first,
            missing,
            self.begins,
            ring.row_prefix,
            ring.capacity,
            ring.rows_at,
        )

    def go_on(self, step: int, monotonic: float) -> None:
        """Note that the native step has advanced the memory itself, up to this step at this time."""
        self.step, self.monotonic, self.begins = step, monotonic, False

    def begin(self, frame: Frame, also: Also) -> Begun:
        """Make room for the samples of ``frame``, and for its row in the ring. The native step must skip the ticks that
        never came."""
        dt = frame.monotonic - self.monotonic
        interval = frame.interval
        self.monotonic = frame.monotonic
        self.begins = frame.epoch != self.epoch or not dt >= SHORTEST
        missing = 0
        if not self.begins and dt > GAP * interval:
            missing = round(min(dt / interval, 1e9)) - 1
        self.step += 1 + min(missing, self.plan.depth)
        self.begins = self.begins or missing >= self.plan.window
        if frame.ids != self.ids and self.begins:
            self._take_slots(self._lay_out(frame.ids), interval, also)
        elif frame.ids != self.ids:
            self._align(frame.ids, interval, also)
        else:
            if self.begins:
                self._forget()
            if self.ring.interval != interval:
                self._take_slots(self.arrays(), interval, also)
        if self.begins:
            self.epoch, self.first = frame.epoch, self.step
            return Begun(interval, min(interval, LONGEST), 0)
        return Begun(dt, min(dt / (1 + missing), LONGEST), missing)

    def _take_slots(self, kept: Arrays, interval: float, also: Also) -> None:
        kept.slots[...] = self.ring.place(np.frombuffer(self.ids, "<u8"), self.step, interval, also)

    def _align(self, ids: bytes, interval: float, also: Also) -> None:
        """Lay out for other rows: entities that stay keep their windows, new ones have none, gone ones are dropped."""
        old, stayed = self.arrays(), who_stayed(ids, self.ids)
        new = self._lay_out(ids)
        arrays: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = list(zip(new[:-2], old[:-2], strict=True))
        for here, there in stayed.runs:
            for array, before in arrays:
                array[..., here] = before[..., there]
            new.ordered[:, here] = old.ordered[:, there]
        if self.ring.interval == interval:
            new.slots[...] = self.ring.move(old.slots, stayed, np.frombuffer(ids, "<u8"), self.step, also)
        else:
            self._take_slots(new, interval, also)

    def section(self) -> memoryview:
        """Section of this tick's record."""
        wire.HEADER.pack_into(self.memory, 0, *self.plan.head._replace(step=self.step, first=self.first))
        return memoryview(self.memory)[: self.plan.head.places(len(self.ids) // 8).size]

    def restore(self, epoch: int, monotonic: float, ids: bytes, section: bytes | memoryview) -> None:
        """Load the figures of a record that matches the plan; windows stay empty."""
        head = wire.unpack_head(section)
        self.epoch, self.monotonic, self.step, self.first = epoch, monotonic, head.step, head.first
        self._lay_out(ids)
        self.memory[: len(section)] = section
        kept = self.arrays()
        kept.figures[: TIME_ABOVE + 1] = np.nan_to_num(kept.figures[: TIME_ABOVE + 1])  # so that they can be continued
        np.minimum(kept.seen, self.plan.window, out=kept.seen)

    def skip(self, missing: int) -> None:
        """Add ticks before this one that never came to every window."""
        n = self.plan.window
        self.arrays().window[:, [(self.step - 1 - i) % n for i in range(missing)]] = ABSENT
        self.recount(self.step - 1)

    def recount(self, newest: int) -> None:
        """Recount the valid samples, and those above the threshold; ``newest`` is the last step in the windows."""
        kept, plan = self.arrays(), self.plan
        there = kept.window < ABSENT
        lately = [(newest - i) % plan.window for i in range(plan.counted)]
        exceeds = kept.window > plan.thresholds[:, None, None]
        kept.counts[VALID] = np.count_nonzero(there, axis=1)
        kept.counts[COUNTED] = np.count_nonzero(there[:, lately], axis=1)
        kept.counts[ABOVE] = np.count_nonzero((there & exceeds)[:, lately], axis=1)

    def recall(self, newest: int) -> None:
        """Take the last valid samples and the sorted windows from the windows, with ``newest`` as the last step."""
        kept, plan = self.arrays(), self.plan
        n = plan.window
        values = kept.window[:, [(newest - i) % n for i in range(n)]]
        valid_first = np.argsort(values >= ABSENT, axis=1, kind="stable")[:, : plan.plateau]
        last = np.take_along_axis(values, valid_first, axis=1)
        kept.lately[...] = np.where(last < ABSENT, last, _UNKNOWN).transpose(1, 0, 2)
        if plan.order:
            kept.ordered[:, :, :n] = np.sort(kept.window, axis=1).transpose(0, 2, 1)


def _places(plan: Plan) -> int:
    """Number of places of a sorted window."""
    return -(-plan.window // PADDING) * PADDING if plan.order else 0
