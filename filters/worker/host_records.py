"""The records of hosts' own figures in a partition, side by side for readers of all hosts.

The layout is that of ``acquisition.wire.host_records``. A tick of all hosts comes in many commits. Written once, when
nothing has come to it for a moment, it costs little more than the copying; a reader that is faster finds the records
under their own keys, as it does those of who is later. Only where readers have said that they ask is it done at all.
"""

from __future__ import annotations

from collections.abc import Mapping

from acquisition.link.resp import pack
from acquisition.model.metric import HOST_SET, resource_set_id
from acquisition.wire import host_records, keys
from filters.worker.record import set_prefix

SETTLED_SECONDS = 0.2  #: for which nothing has come to a slot
_LONGEST = 10  #: seconds that they are kept: they are of use until the tick is behind
_OWN_SET = resource_set_id(HOST_SET)
_OWN = f":{_OWN_SET:08x}:".encode()
_TAIL = slice(-6, None)  #: of the prefix of a SET command: it tells up to a thousand slots from each other


class _Slot:
    """``told`` are the keys (as prefixes of SET commands) whose records the shard has side by side under ``key``.
    ``waiting`` are the SET commands of those that it will have, the newest of which came at ``since``."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.told: frozenset[bytes] = frozenset()
        self.waiting: dict[bytes, bytes] = {}
        self.since = 0.0

    def end(self, records: Mapping[bytes, bytes]) -> bool:
        """Whether what lies side by side has older ones of these records, which are written now: it is no more then."""
        ended = not self.told.isdisjoint(records)
        if ended:
            self.told = frozenset()
        return ended

    def take(self, records: Mapping[bytes, bytes], now: float) -> bool:
        """The same; and note them."""
        ended = self.end(records)
        if not self.told:  # else they come late: readers ask for them alone
            self.waiting.update(records)
            self.since = now
        return ended

    def forget(self) -> None:
        """Let go of what waits."""
        self.waiting = {}

    def settle(self) -> list[bytes]:
        """The records that are to be written side by side: none where it is of few hosts."""
        waiting, self.waiting = self.waiting, {}
        if len(waiting) < host_records.FEWEST:
            return []
        self.told = frozenset(waiting)
        return [value_of(prefix, waiting[prefix]) for prefix in sorted(waiting)]


class HostRecords:
    """What is written of one partition, and when; its worker uses it.

    As long as nobody asks (``hear``) nothing is kept, and nothing is written.
    """

    def __init__(self, tag: str, keep_ticks: int, expire_seconds: float) -> None:
        self._by_tail = {
            set_prefix(keys.smoothed(tag, 0, _OWN_SET, slot))[_TAIL]: _Slot(keys.hosts(tag, slot))
            for slot in range(keep_ticks)
        }
        self._expire = str(max(1, min(_LONGEST, int(expire_seconds))))
        self._begun: dict[bytes, _Slot] = {}  #: the slots in which something waits or is told, by tail
        self._is_sought = self._is_known = False  #: whether somebody asks; whether the shard has what is told

    def hear(self, is_sought: bool) -> None:
        """Whether somebody asks for records side by side."""
        self._is_sought = is_sought
        if not is_sought:
            for slot in self._begun.values():
                slot.forget()

    def commands(self, records: Mapping[bytes, bytes], now: float, full: bool) -> list[bytes]:
        """What a commit of these SET commands by prefix has to run as well at ``now`` (CLOCK_MONOTONIC), packed; for a
        shard that is ``full`` nothing that takes memory."""
        found = [] if self._is_known else [pack(("DEL", *(slot.key for slot in self._by_tail.values())))]
        self._is_known = True
        if not self._is_sought and not self._begun:
            return found
        settled = [slot for slot in self._begun.values() if slot.waiting and now - slot.since >= SETTLED_SECONDS]
        own = {prefix: command for prefix, command in records.items() if _OWN in prefix}
        tails = {prefix[_TAIL] for prefix in own}
        for tail in tails:
            theirs = own if len(tails) == 1 else {each: own[each] for each in own if each[_TAIL] == tail}
            found += self._take(tail, theirs, now)
        for slot in settled if self._is_sought and not full else ():
            if written := slot.settle():
                found.append(pack(("SET", slot.key, host_records.encode(written), "EX", self._expire)))
        return found

    def _take(self, tail: bytes, records: Mapping[bytes, bytes], now: float) -> list[bytes]:
        slot = self._by_tail[tail]
        ended = slot.take(records, now) if self._is_sought else slot.end(records)
        if slot.waiting or slot.told:
            self._begun[tail] = slot
        else:
            self._begun.pop(tail, None)
        return [pack(("DEL", slot.key))] if ended else []


def value_of(prefix: bytes, command: bytes) -> bytes:
    """The record in a SET command that begins with ``prefix`` (filters.worker.record.set_prefix)."""
    at = command.index(b"\r\n", len(prefix))
    return command[at + 2 : at + 2 + int(command[len(prefix) : at])]
