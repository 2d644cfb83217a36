"""Intake of a partition: applies or rejects the entries of a read, in order."""

from __future__ import annotations

import time
from typing import Any

from acquisition.errors import FrameError
from acquisition.link.happenings import MISNAMED
from acquisition.link.resp import pack
from acquisition.model.identity import is_own_name
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.rejected import LimitError
from filters.worker.partitions.batch import Accepted, Batch
from filters.worker.partitions.rejections import unforeseen
from filters.worker.partitions.resource_sets import ResourceSets
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.first_seen import stamped
from filters.worker.states.name_table import learn
from filters.worker.states.sequence import APPLY, contested
from filters.worker.states.state import State
from filters.worker.step.native import Step

_CATCH_UP = 600.0  #: seconds for which the ids of entries that were not read yet are believed
_LONGEST_NAME = 100


class Intake:
    """Judges entries by the states of ``sets``. The native ``step`` (filters.worker.step.native) takes the frames that
    simply follow, which are not decoded then."""

    def __init__(self, sets: ResourceSets, settings: FilterSettings, step: Step | None) -> None:
        self._sets = sets
        self._settings = settings
        self._step = step
        self._came = 0.0  #: when the newest entry did, by its id, which goes back with no stream that starts again

    def resume(self, cursor: bytes) -> None:
        """Go on behind an entry."""
        self._came = _seconds(cursor)

    def take(self, batch: Batch) -> int:
        """Judge the entries of a batch, in stream order: tables are applied at once, sample frames are accepted, and
        whatever is no frame of this partition is rejected. Answers the bytes of all frames."""
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
        """Take the frames between these places that simply follow, up to the first that does not: where that is, and
        the bytes of frames until there. Without the native step none of them is known to follow."""
        if self._step is None:
            return at, 0
        known = self._sets.states, self._sets.heard, batch.dirty
        return self._step.take_followers(batch.entries, at, end, batch, *known, now, Accepted, batch.accepted)

    def _take_one(self, batch: Batch, at: int, now: float) -> int:
        """Take or reject any entry; answers the bytes of its frame."""
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
        except Exception as error:  # whatever it is: no entry of a stranger ends a worker
            batch.reject(entry_id, unforeseen(error), fields)
        return size

    def _judge(self, batch: Batch, data: bytes, now: float) -> None:
        """Apply any frame that is the next one, and accept it if it is of samples. Raises FrameError."""
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
        except LimitError:  # its number is taken, so that those after it are not held up
            track.forgo(frame)
            raise
        track.apply(frame)  # a table that cannot be read is rejected, and never asked for again
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
        if overflows:  # with names of entities that have gone since the last complete table
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
        """When the newest entry came by its shard's clock, seconds since 1970: a filter may catch up. Ids are chosen by
        who sends, within these bounds."""
        return min(now, max(self._came, now - _CATCH_UP))


def _payload(fields: Any) -> bytes:
    if not isinstance(fields, list) or len(fields) < 2 or fields[0] != keys.ENTRY_FIELD:
        raise FrameError("payload", "the entry has no field `f`")
    data: bytes = fields[1]
    return data


def _seconds(entry: bytes) -> float:
    return int(entry.partition(b"-")[0]) / 1000.0
