"""Batch of a partition: the entries of a read, applied in order or rejected."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.link.happenings import MISNAMED
from acquisition.link.resp import pack
from acquisition.model.identity import is_own_name
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.rejected import LimitError
from filters.worker.partitions.rejections import Rejections, unforeseen
from filters.worker.partitions.resource_sets import ResourceSets
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.first_seen import stamped
from filters.worker.states.name_table import learn
from filters.worker.states.sequence import APPLY, contested
from filters.worker.states.state import State
from filters.worker.step.native import Step

_NAMED = slice(12, wire.HEADER_SIZE)  #: of a frame: the part that does not depend on the marks of its samples
_CATCH_UP = 600.0  #: seconds for which the ids of unread entries are trusted
_LONGEST_NAME = 100


class Accepted(NamedTuple):
    """An encoded frame to smooth, its number of samples, the state that it advances, and the batch for its commands.

    ``frame`` is None until it is decoded.
    """

    batch: Batch
    state: State
    samples: int
    data: bytes
    frame: Frame | None = None

    def decoded(self) -> Frame:
        """The frame."""
        return wire.decode(self.data) if self.frame is None else self.frame


@dataclass(slots=True, eq=False)
class Batch:
    """Entries of one read of partition ``number``, and the writes of their commit. ``held``: id of the previous
    commit.

    ``records``: packed SET commands by their prefix, which names the key; ``extra``: all other commands; ``dirty``:
    states by member with positions to write. The native step (filters.worker.step.native) adds to all three.
    """

    number: int
    rejections: Rejections
    held: bytes = b""
    entries: list[Any] = field(default_factory=list)
    extra: list[bytes] = field(default_factory=list)
    records: dict[bytes, bytes] = field(default_factory=dict)
    dirty: dict[bytes, State] = field(default_factory=dict)
    accepted: list[Accepted] = field(default_factory=list)

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, *raised: object) -> None:
        self.accepted = []  # each refers to the batch: no reference cycle remains

    def also(self, *commands: bytes) -> None:
        """Add packed commands of the partition's keys to the commit."""
        self.extra.extend(commands)

    def keep_record(self, prefix: bytes, command: bytes) -> None:
        """Add a record, a packed SET; a newer one with the same ``prefix`` replaces it."""
        self.records[prefix] = command

    def reject(self, entry_id: bytes, error: FrameError, fields: Sequence[Any]) -> None:
        """Store an entry among the rejected ones, with the reason."""
        self.also(*self.rejections.add(entry_id, error, fields, time.monotonic()))

    def give_up(self, accepted: Accepted, error: Exception) -> None:
        """Reject the entry of a frame that could not be smoothed; its averages restart."""
        accepted.state.forget()
        for entry_id, fields in self.entries:
            if isinstance(fields, list) and len(fields) > 1 and fields[1][_NAMED] == accepted.data[_NAMED]:
                self.reject(entry_id, unforeseen(error), fields)
                break


class Intake:
    """Judges entries by the states of ``sets``. The native ``step`` (filters.worker.step.native) takes the frames
    in direct succession, without decoding them."""

    def __init__(self, sets: ResourceSets, settings: FilterSettings, step: Step | None) -> None:
        self._sets = sets
        self._settings = settings
        self._step = step
        self._came = 0.0  #: time of the newest entry by its id; no restarted stream sets it back

    def resume(self, cursor: bytes) -> None:
        """Continue after an entry."""
        self._came = _seconds(cursor)

    def take(self, batch: Batch) -> int:
        """Judge the entries of a batch, in stream order: tables are applied at once, sample frames are accepted, and
        everything that is not a frame of this partition is rejected. Returns the bytes of all frames."""
        size = at = 0
        now, end = time.monotonic(), len(batch.entries)
        while at < end:
            if self._settings.verifier is None:
                at, taken = self._follow(batch, at, end, now)
                size += taken
            if at < end:
                size += self._take_one(batch, at, now)
                at += 1
        return size

    def _follow(self, batch: Batch, at: int, end: int, now: float) -> tuple[int, int]:
        """Take the frames from ``at`` on that follow in direct succession, up to the first that does not: returns its
        place, and the bytes of frames before it. Without the native step there are none."""
        if self._step is None:
            return at, 0
        known = self._sets.states, self._sets.heard, batch.dirty
        return self._step.take_followers(batch.entries, at, end, batch, *known, now, Accepted, batch.accepted)

    def _take_one(self, batch: Batch, at: int, now: float) -> int:
        """Take or reject any entry; returns the bytes of its frame."""
        entry_id, fields = batch.entries[at]
        size = 0
        self._came = max(self._came, _seconds(entry_id))
        try:
            data = _payload(fields)
            size = len(data)
            verifier = self._settings.verifier
            if verifier is not None:
                verifier.check(data, fields)
            if verifier is None or self._follow(batch, at, at + 1, now)[0] == at:
                self._judge(batch, data, now)
        except FrameError as error:
            batch.reject(entry_id, error, fields)
        except Exception as error:  # of any kind: no entry from outside may end a worker
            batch.reject(entry_id, unforeseen(error), fields)
        return size

    def _judge(self, batch: Batch, data: bytes, now: float) -> None:
        """Apply a frame that is the next one, and accept it if it has samples. Raises FrameError."""
        frame = wire.decode(data)
        key = (frame.host, frame.resource_set)
        state = self._sets.states.get(key) or self._sets.admit(*key, batch.extra)
        self._sets.heard[key] = now
        batch.dirty[state.member] = state
        track = state.track
        if track.judge(frame) != APPLY:
            return
        try:
            self._sets.sizes.check(frame)
        except LimitError:  # its number is taken, so that those after it are not blocked
            track.forgo(frame)
            raise
        track.apply(frame)  # an unreadable table is rejected, and never requested again
        if frame.kind == wire.KIND_SAMPLES:
            state.accept(frame)
            if track.contested:
                frame = contested(frame)
                data = wire.encode(frame)
            batch.accepted.append(Accepted(batch, state, frame.samples, data, frame))
        elif frame.kind == wire.KIND_TABLE:
            self._apply_table(batch, state, frame)

    def _apply_table(self, batch: Batch, state: State, frame: Frame) -> None:
        before = b"" if state.names is None else state.names.payload
        rows = state.ids if state.metrics >= 0 else None
        payload = stamped(frame.payload, before, rows, self._when(time.time()))
        names = learn(state.names, payload)
        overflows = names.ids.size > self._settings.limits.entities
        if overflows:  # including names of entities that have gone since the last complete table
            names = learn(None, payload)
        self._sets.sizes.check_table(frame.host, len(names.metrics), names.ids.size)
        self._sets.name(state, names)
        if not is_own_name(names.host, frame.host):
            details = {"reason": f"claims the name {names.host[:_LONGEST_NAME]!r} of another host"}
            batch.also(*batch.rejections.tell(MISNAMED, frame.host, details, time.monotonic()))
        if overflows:
            state.ask_for_table()
        batch.also(pack(("SET", state.names_key, names.payload)))

    def _when(self, now: float) -> float:
        """Time of the newest entry on its shard's clock, seconds since 1970: a filter may be catching up. Senders
        choose ids, within these limits."""
        return min(now, max(self._came, now - _CATCH_UP))


def _payload(fields: Any) -> bytes:
    if not isinstance(fields, list) or len(fields) < 2 or fields[0] != keys.ENTRY_FIELD:
        raise FrameError("payload", "the entry has no field `f`")
    data: bytes = fields[1]
    return data


def _seconds(entry: bytes) -> float:
    return int(entry.partition(b"-")[0]) / 1000.0
