"""The decision inputs of one (host, resource set) in a worker's memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.inputs import DERIVED_PLANES, PLANES, Floats, InputsRecord, pack_names, plane_count
from filters.worker.inputs.order import ABSENT
from filters.worker.inputs.plan import Plan
from filters.worker.record import set_prefix

MEDIAN, MEAN, VALID, COUNTED, ABOVE, LOWEST = map(
    PLANES.index, ("median", "mean", "valid", "counted", "above", "lowest")
)
_LONGEST = 1e9  #: seconds that a sample stands for, whatever a frame says
_SHORTEST = 1e-9  #: seconds between two frames; less, or a clock that went back, is a new beginning


class Prefixes:
    """What does not change in the commands that keep the inputs of one (host, resource set)."""

    __slots__ = ("names", "parameters", "recent", "row", "slots")

    def __init__(self, tag: str, host: int, resource_set: int, keep_ticks: int, plan: Plan) -> None:
        records = (keys.inputs(tag, host, resource_set, slot) for slot in range(keep_ticks))
        self.slots = [set_prefix(key) for key in records]
        self.recent = keys.recent(tag, host, resource_set)
        self.row = f"*4\r\n$4\r\nHSET\r\n${len(self.recent)}\r\n{self.recent}\r\n".encode()
        self.names = pack_names(plan.names)
        self.parameters = plan.thresholds.tobytes() + plan.slacks.tobytes()


class InputsState:
    """For C columns and E entities: ``window`` float32 (C, n, E), whose place ``step % n`` holds the newest raw values,
    ABSENT where not valid; ``sorted_window()`` (C, E, n) holds the same in ascending order; ``lately`` float32
    (m, C, E), the last m valid ones, the newest first, NaN where there were fewer; ``planes`` float32 (P, C, E), see
    acquisition.wire.inputs.PLANES; ``derived`` float32 (4, D, E); ``since`` float64 (E,) wall clock of an entity's
    first tick; ``seen`` int64 (E,) ticks since.

    ``step`` counts ticks, those that never came included; ``first`` is the one since which windows know anything.
    ``layouts`` are the steps from which on rows of recent values belonged to other entities.
    """

    __slots__ = (
        "_ages", "_ordered", "_prefixes", "derived", "epoch", "first", "fresh", "ids", "lately", "layout_known",
        "layouts", "lives_until", "monotonic", "plan", "planes", "seen", "settled", "since", "step", "window",
    )  # fmt: skip

    def __init__(self, plan: Plan, step: int = 0) -> None:
        self.plan = plan
        self.epoch = 0
        self.monotonic = 0.0
        self.step = self.first = step
        self.ids = b""
        self.layouts: deque[int] = deque()
        self.layout_known = False  #: whether the shard knows the newest layout
        self.fresh = True  #: whether older rows may lie in the shard that are none of ours
        self.lives_until = 0.0  #: monotonic time by which the recent values must be given time to live again
        self._prefixes: Prefixes | None = None
        self._lay_out(0)

    def _lay_out(self, entities: int) -> None:
        plan = self.plan
        self.window: Floats = np.full((plan.columns, plan.window, entities), ABSENT, np.float32)
        self._ordered: Floats | None = None
        self.lately: Floats = np.full((plan.plateau, plan.columns, entities), np.nan, np.float32)
        self.planes: Floats = _unknown(plan, entities)
        self.derived: Floats = np.full((len(DERIVED_PLANES), len(plan.derived), entities), np.nan, np.float32)
        self.derived[-1] = 0.0
        self.since: npt.NDArray[np.float64] = np.zeros(entities)
        self.seen: npt.NDArray[np.int64] = np.zeros(entities, np.int64)
        self.settled = False  #: whether every entity's window is full
        self._ages: bytes | None = None

    def begin(self, frame: Frame) -> tuple[float, float, int]:
        """Make room for the samples of ``frame``: answers the seconds since the frame before, the seconds that each
        of its samples stands for, and how many ticks before it never came, which the step has to ``skip``."""
        dt = frame.monotonic - self.monotonic
        self.monotonic = frame.monotonic
        known = frame.epoch == self.epoch and dt >= _SHORTEST
        missing = 0
        if known and dt > 1.5 * frame.interval:
            missing = round(min(dt / frame.interval, 1e9)) - 1
        self.step += 1 + min(missing, self.plan.depth)
        if frame.ids != self.ids:
            self.align(frame.ids)
        if not known or missing >= self.plan.window:
            self._restart(frame.epoch)
            dt, seconds, missing = frame.interval, min(frame.interval, _LONGEST), 0
        else:
            seconds = min(dt / (1 + missing), _LONGEST)
        if not self.settled:
            self._grow_older(1 + missing, frame.wall)
        return dt, seconds, missing

    def _grow_older(self, ticks: int, wall: float) -> None:
        new = self.seen == 0
        self.since[new] = wall
        self.seen = np.where(new, 1, np.minimum(self.seen + ticks, self.plan.window))
        self._ages = None
        self.settled = bool((self.seen == self.plan.window).all())

    def sorted_window(self) -> Floats:
        """The window in ascending order, float32 (C, E, n), C-contiguous; the native step keeps it so."""
        if self._ordered is None:
            self._ordered = np.ascontiguousarray(np.sort(self.window, axis=1).transpose(0, 2, 1))
        return self._ordered

    def disorder(self) -> None:
        """The window has changed by other hands than the native step's."""
        self._ordered = None

    def ages(self) -> bytes:
        """``since`` and ``seen`` as the record has them."""
        if self._ages is None:
            self._ages = self.since.tobytes() + self.seen.astype("<u2").tobytes()
        return self._ages

    def prefixes(self, tag: str, host: int, resource_set: int, keep_ticks: int) -> Prefixes:
        """Those of the commands that keep these inputs."""
        if self._prefixes is None:
            self._prefixes = Prefixes(tag, host, resource_set, keep_ticks, self.plan)
        return self._prefixes

    def take(self, planes: Floats, derived: Floats | None) -> None:
        """Go on with what a step has computed; ``derived`` None: there are no derived columns."""
        self.planes = planes
        if derived is not None:
            self.derived = derived

    def take_plateau(self, lately: Floats) -> None:
        """Go on with these last valid samples."""
        self.lately = lately

    def live_until(self, until: float) -> None:
        """The recent values have time to live until then, CLOCK_MONOTONIC."""
        self.lives_until = until

    def rows_are_ours(self) -> None:
        """What lies in the shard was written for these inputs."""
        self.fresh = False

    def layout_is_written(self) -> None:
        """The next commit tells the shard the newest layout."""
        self.fresh, self.layout_known = False, True

    def restore(self, record: InputsRecord, layouts: Sequence[int] = ()) -> None:
        """Take the figures of a record; windows stay empty, and so does a plateau that the record has not.

        ``layouts`` are those that the shard knows, in order.
        """
        head = record.head
        self.epoch, self.monotonic = head.epoch, head.monotonic
        self.step, self.first = head.step, head.first
        self.layouts = deque([*(layout for layout in layouts if layout < head.layout), head.layout])
        self.layout_known = head.layout in layouts
        self._lay_out(head.entities)
        self.ids = record.ids.tobytes()
        shared = min(len(self.planes), len(record.planes))
        self.planes[:shared], self.derived = record.planes[:shared], record.derived.copy()
        self.planes[:MEDIAN] = np.nan_to_num(self.planes[:MEDIAN])  # a figure that goes on must be able to
        self.since, self.seen = record.since.copy(), np.minimum(record.seen.astype(np.int64), self.plan.window)
        self.settled = bool((self.seen == self.plan.window).all())

    def align(self, ids: bytes) -> None:
        """Lay out for other rows: who stays keeps their windows, newcomers have none, who is gone is forgotten."""
        old_ids, window = np.frombuffer(self.ids, "<u8"), self.window
        old = window, self.lately, self.planes, self.derived
        since, seen = self.since, self.seen
        new_ids = np.frombuffer(ids, "<u8")
        self._lay_out(new_ids.size)
        _, here, there = np.intersect1d(new_ids, old_ids, return_indices=True)
        for new_array, old_array in zip((self.window, self.lately, self.planes, self.derived), old, strict=True):
            new_array[:, :, here] = old_array[:, :, there]
        self.since[here], self.seen[here] = since[there], seen[there]
        self.ids = ids
        self.layouts.append(self.step)
        self.layout_known = False

    def _restart(self, epoch: int) -> None:
        """Nothing is known any more but who the rows are."""
        self.epoch, self.first = epoch, self.step
        self._lay_out(len(self.ids) // 8)

    def skip(self, missing: int) -> None:
        """Ticks before this one that never came take their place in every window."""
        n = self.plan.window
        self.window[:, [(self.step - 1 - i) % n for i in range(missing)]] = ABSENT
        self.recount(self.step - 1)

    def recount(self, newest: int) -> None:
        """Count the valid samples, and those above the threshold, anew; ``newest`` is the last step in the windows."""
        self.disorder()
        planes = self.planes.copy()  # it may be a view of a batch that others share
        there = self.window < ABSENT
        planes[VALID] = np.count_nonzero(there, axis=1)
        lately = [(newest - i) % self.plan.window for i in range(self.plan.counted)]
        exceeds = self.window > self.plan.thresholds[:, None, None]
        planes[COUNTED] = np.count_nonzero(there[:, lately], axis=1)
        planes[ABOVE] = np.count_nonzero((there & exceeds)[:, lately], axis=1)
        self.planes = planes

    def recall(self, newest: int) -> None:
        """Take ``lately`` from the windows, whose last step is ``newest``."""
        n = self.plan.window
        values = self.window[:, [(newest - i) % n for i in range(n)]]
        valid_first = np.argsort(values >= ABSENT, axis=1, kind="stable")[:, : self.plan.plateau]
        last = np.take_along_axis(values, valid_first, axis=1)
        self.lately = np.ascontiguousarray(np.where(last < ABSENT, last, np.float32(np.nan)).transpose(1, 0, 2))

    def forget_layouts(self) -> list[int]:
        """The layouts that no row of the last ``depth`` steps has any more; they are forgotten."""
        gone = []
        while len(self.layouts) > 1 and self.layouts[1] <= self.step - self.plan.depth + 1:
            gone.append(self.layouts.popleft())
        return gone


def _unknown(plan: Plan, entities: int) -> Floats:
    planes = np.zeros((plane_count(plan.plateau), plan.columns, entities), np.float32)
    planes[MEDIAN : MEAN + 1] = np.nan
    planes[LOWEST:] = np.nan
    return planes
