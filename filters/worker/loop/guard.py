"""Guard against misuse of a probe's password: future ids, oversized values.

Ids ahead of the shard's clock block a stream.

A stream accepts only ids after its last one, even when it has been emptied. So one entry with the greatest id
ends it: nothing can be added any more. One from next year is followed by ids from next year, so that nothing
expires. Such a stream is removed after its filter has read it to the end, and starts again; entries refused meanwhile
wait in the rings of its probes. A status takes 2 kB and may be set to 512 MB: one that is too large, or of no host, is
removed, as are raw streams of partitions that do not exist, which no one would trim. All of it is recorded as events.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeGuard

from acquisition.errors import FrameError
from acquisition.link import happenings
from acquisition.link.cluster import Cluster, Command
from acquisition.log import TroubleLog
from acquisition.wire import keys, position, readers
from acquisition.wire.layout import Layout
from acquisition.wire.stream_id import parse
from filters.runtime.background_jobs import BackgroundJobs, Outcome
from filters.worker.loop.worker import Worker

_EVERY = 10.0  #: seconds between two checks of streams
_LOOKS = 6  #: every this many checks, sizes are checked too
_AHEAD = 60_000  #: milliseconds by which an id may be ahead: clocks of masters differ
_MOST_STATUS = 1 << 16  #: bytes, thirty times what a probe writes
_STEP_PAUSE = 0.01  #: seconds between two steps of a SCAN: the worker's loop and the shard have other work
_LANE = "guard"
_NO_ID = b"0-0"
_WRITTEN = "[rs][at][wa]*"  #: SCAN pattern of keys written by probes, raw and status, and few others
_NAME = re.compile(rb"(?:raw:\{([^{}]+)\}|status:\{([^{}]+)\}:[0-9a-f]{16})")
#: KEYS: stream; ARGV: the filter's cursor. Removes a stream that has been read to its end.
_REMOVE = """
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if newest and newest[1] ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
return 1
"""


class _Found(NamedTuple):
    """Partitions with a restarted stream, and the repairs, in words."""

    renewed: list[int]
    told: list[str]


class _Name(NamedTuple):
    """A key possibly written by a probe; ``tag`` is "" if it is neither a raw stream nor a status."""

    whole: bytes
    tag: str


class Guard:
    """Checks the worker's partitions in the background; ``every`` in seconds."""

    def __init__(
        self,
        cluster: Cluster,
        layout: Layout,
        worker: Worker,
        background: BackgroundJobs,
        log: TroubleLog,
        every: float = _EVERY,
    ) -> None:
        self._cluster = cluster.another()
        self._tags = layout.tags
        self._worker = worker
        self._background = background
        self._log = log
        self._every = every
        self._due = time.monotonic() + every
        self._looks = 0

    def turn(self) -> None:
        """Check if it is time; call between the turns of the worker."""
        if time.monotonic() >= self._due:
            self._due = float("inf")
            numbers = sorted(self._worker.partitions)
            self._looks += 1
            self._background.submit(_LANE, lambda: self._look(numbers, self._looks % _LOOKS == 0), self._done)

    def _done(self, outcome: Outcome) -> None:
        """A shard that does not answer changes nothing: the worker reports it."""
        self._due = time.monotonic() + self._every
        if isinstance(outcome, _Found):
            for number in outcome.renewed:
                self._worker.renew(number)
            for text in outcome.told:
                self._log.tell(text)

    def _look(self, numbers: Sequence[int], sizes: bool) -> _Found:
        found = _Found([], [])
        try:
            self._look_at_ids(numbers, found)
            if sizes:
                self._look_at_sizes(numbers, found)
        finally:
            self._cluster.close()
        return found

    # ---------------------------------------------------------------- ids

    def _look_at_ids(self, numbers: Sequence[int], found: _Found) -> None:
        commands: list[Command] = []
        for number in numbers:
            raw, value = keys.raw(self._tags[number]), keys.commit(self._tags[number])
            commands += [(raw, ("TIME",)), (value, ("GET", value)), (raw, ("XINFO", "STREAM", raw))]
        replies = self._cluster.gather(commands)
        for place, number in enumerate(numbers):
            clock, value, stream = replies[3 * place : 3 * place + 3]
            if isinstance(clock, list):
                latest = readers.milliseconds(clock) + _AHEAD
                self._check(number, latest, _cursor(value), _last_id(stream), found)

    def _check(self, number: int, latest: int, cursor: bytes, last: bytes, found: _Found) -> None:
        if parse(last)[0] > latest:
            raw = keys.raw(self._tags[number])
            if self._cluster.call(raw, "EVAL", _REMOVE, 1, raw, cursor) == 1:
                found.renewed.append(number)
                text = f"{raw} had ids up to {last.decode()}, ahead of its shard's clock: stream reset"
                self._tell(self._tags[number], "ids_ahead", text, found)
        elif parse(cursor)[0] > latest:  # removed by a worker that did not reach its next commit
            found.renewed.append(number)

    # ---------------------------------------------------------------- sizes

    def _look_at_sizes(self, numbers: Sequence[int], found: _Found) -> None:
        own = [self._tags[number] for number in numbers]
        shards = {self._cluster.owner(keys.raw(tag)): tag for tag in own}
        for tag in shards.values():
            cursor = b"0"
            while True:
                cursor, names = self._cluster.call(
                    keys.raw(tag), "SCAN", cursor, "MATCH", _WRITTEN, "COUNT", 1000
                )  # takes a shard 0.2 ms
                self._check_sizes([name for name in map(_named, names) if self._is_for_us(name, own)], tag, found)
                if cursor == b"0":
                    break
                time.sleep(_STEP_PAUSE)

    def _is_for_us(self, name: _Name | None, own: Sequence[str]) -> TypeGuard[_Name]:
        """Whether it belongs to one of our partitions, or to one that does not exist."""
        return name is not None and (name.tag in own or name.tag not in self._tags)

    def _check_sizes(self, names: Sequence[_Name], tag: str, found: _Found) -> None:
        here = keys.raw(tag)  # on the same shard
        sizes = self._cluster.gather([(here, ("STRLEN", name.whole)) for name in names])
        for name, size in zip(names, sizes, strict=True):
            stranger = name.tag not in self._tags
            large = isinstance(size, int) and size > _MOST_STATUS  # an error for a stream
            if (stranger or large) and self._cluster.call(here, "DEL", name.whole):
                why = "not of a host of any partition" if stranger else f"{size} bytes, too large"
                told = f"removed {name.whole[:80]!r}: {why}"
                self._tell(tag if stranger else name.tag, "oversized", told, found)

    def _tell(self, tag: str, kind: str, text: str, found: _Found) -> None:
        found.told.append(text)
        self._cluster.gather(happenings.appended(tag, kind, {"reason": text}))


def _cursor(value: Any) -> bytes:
    try:
        return position.decode_commit(value).cursor if isinstance(value, bytes) else _NO_ID
    except FrameError:
        return _NO_ID


def _last_id(reply: Any) -> bytes:
    """Last id in a reply to XINFO STREAM, which is an error if there is no stream."""
    if not isinstance(reply, list) or b"last-generated-id" not in reply:
        return _NO_ID
    return bytes(reply[reply.index(b"last-generated-id") + 1])


def _named(whole: bytes) -> _Name | None:
    if not whole.startswith((b"raw:", b"status:")):
        return None
    found = _NAME.fullmatch(whole)
    tag = b"" if found is None else found[1] or found[2]
    return _Name(whole, tag.decode(errors="replace"))
