"""One partition in a filter worker: its states, its cursor, and the commands of its commit.

The commit is one transaction: smoothed records, applied positions, names, rejected entries,
and ``commit:{tag}`` with a fresh random id and the cursor. The worker WATCHes that key and
reads it back before every read of the stream: when the id is not its own last one, somebody
else has committed (or the shard came back empty), and state and cursor are loaded again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.link.happenings import MISNAMED
from acquisition.link.resp import front, pack, word
from acquisition.model.identity import is_own_name
from acquisition.wire import frame as wire
from acquisition.wire import keys, position, readers, seen
from acquisition.wire.frame import Frame
from acquisition.wire.position import Commit
from acquisition.wire.readers import Cut
from acquisition.wire.rejected import HostSizes, LimitError
from acquisition.wire.seen import Seen
from filters.worker.partitions import commits as oom_commit
from filters.worker.partitions.dormant_positions import DormantPositions, seen_of
from filters.worker.partitions.lanes import Lanes, Read, size_of
from filters.worker.partitions.rejections import Rejections, unforeseen
from filters.worker.partitions.retention import Kept
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.first_seen import stamped
from filters.worker.states.name_table import NameTable, learn
from filters.worker.states.sequence import APPLY, contested
from filters.worker.states.state import State
from filters.worker.step.native import Step

START = b"0-0"
_XREAD = {readings: front(6 + 2 * readings, "XREAD", "COUNT") for readings in (1, 2)}
_BLOCK, _STREAMS = word(b"BLOCK"), word(b"STREAMS")
_EXPIRE_EVERY = 10.0
_CATCH_UP = 600.0  #: seconds for which the ids of entries that were not read yet are believed
_TRIM_EVERY = 1.0  #: seconds between two trims: one of many entries costs a shard less than many of one
_MOST_ENTRIES = 512
_MOST_BYTES = 1 << 20
_LONGEST_NAME = 100
_NAMED = slice(12, wire.HEADER_SIZE)  #: of a frame: what is the same however its samples are marked


class Accepted(NamedTuple):
    """A frame to smooth, encoded, with so many samples, the state that it advances, and the partition that commits it.

    ``frame`` is None while nobody has needed more of it.
    """

    partition: Partition
    state: State
    samples: int
    data: bytes
    frame: Frame | None = None

    def decoded(self) -> Frame:
        """The frame."""
        return wire.decode(self.data) if self.frame is None else self.frame


class Partition:
    """States by (host, resource set); ``commit_id`` is empty when nothing was ever committed.

    The native ``step`` (filters.worker.step.native) takes the frames that simply follow, which are not decoded then,
    and leaves its commands in ``records``, those of SET by their prefix, and ``extra``, all others of the next commit.
    """

    records: dict[bytes, bytes]
    extra: list[bytes]

    def __init__(
        self,
        number: int,
        tag: str,
        partitions: int,
        settings: FilterSettings,
        step: Step | None = None,
    ) -> None:
        self.number = number
        self.tag = tag
        self.partitions = partitions
        self.settings = settings
        self._step = step
        self.raw_key = keys.raw(tag)
        self.commit_key = keys.commit(tag)
        self.applied_key = keys.applied(tag)
        self.dormant = DormantPositions(tag, partitions, settings.limits.resource_sets)
        self._set_commit = front(3, "SET", self.commit_key)
        self._applied = word(b"HSET") + word(self.applied_key.encode())
        self._watch = pack(("WATCH", self.commit_key)) + pack(("GET", self.commit_key))
        self._stream = word(self.raw_key.encode())
        self._look = b"".join(map(pack, (("HGETALL", keys.readers(tag)), ("TIME",))))
        self.states: dict[tuple[int, int], State] = {}
        self.commit_id = b""
        self.cursor = START
        self.rejections = Rejections(tag)
        self.sizes = HostSizes(settings.limits)
        self._taken: list[Any] = []  #: the entries of the newest read, until they are committed
        self._most_entries = _MOST_ENTRIES  #: of the next read, by the frames of the last one
        self.has_more = False  #: whether the last read brought as much as it might
        self._lanes = Lanes()
        self._read: Read | None = None  #: the newest one while there are two readings
        self._heard: dict[tuple[int, int], float] = {}  #: when a frame of each of ``states`` was last seen
        self._dirty: dict[bytes, State] = {}
        self.records, self.extra = {}, []
        self._kept = Kept(settings)
        self._expire_at = 0.0
        self._trim_at = 0.0
        self._came = 0.0  #: when the newest entry did, by its id, which goes back with no stream that starts again
        self._renewed = False  #: whether the stream is another one, which no commit says yet

    def resume(self, commit_id: bytes, cursor: bytes = START, rejected: int = 0) -> None:
        """Go on behind a commit that this or another worker made."""
        self.commit_id, self.cursor, self._came = commit_id, cursor, _seconds(cursor)
        self.rejections.resume(rejected)

    def renew(self) -> None:
        """The stream was read to its end and removed (filters.worker.loop.guard): go on at its beginning."""
        self.cursor, self._renewed = START, True
        self._lanes, self._read = Lanes(), None
        self._kept.clear()

    # ---------------------------------------------------------------- applying

    def entries_of(self, reply: list[Any] | None) -> list[Any]:
        """The entries to take of a reply to ``read_command``; None: nothing came, or a stranger trimmed it away."""
        found = [entries for _, entries in reply or ()]
        self._read = None
        if not self._lanes.front:
            entries = found[0] if found else []
            self.has_more = len(entries) >= self._most_entries
            return entries
        read = self._lanes.arrange(found, self.cursor, self._most_entries)
        self.has_more = True
        self._fit(sum(map(len, found)), sum(map(size_of, found)), _MOST_BYTES)
        if read.entries:
            self._read = read
        else:
            self._pass(read.cursor, read.size)
        return read.entries

    def _fit(self, count: int, size: int, most_bytes: int) -> None:
        """Read as many entries next as fit, by those that were read last."""
        self._most_entries = min(_MOST_ENTRIES, 1 + min(_MOST_BYTES, most_bytes) * count // (size + 1))

    def _pass(self, cursor: bytes, size: int) -> None:
        self.cursor = cursor
        if size:
            self._kept.add(cursor, size)

    def take(self, entries: list[Any], most_bytes: int = _MOST_BYTES) -> list[Accepted]:
        """Judge the entries of one read, in stream order. Tables are applied at once; answers the
        sample frames to smooth. Entries that are no frames of this partition are rejected.

        The next read brings some ``most_bytes``: while a worker is saturated, every partition gets its turn.
        """
        accepted: list[Accepted] = []
        size = 0
        now = time.monotonic()
        at = 0
        while at < len(entries):
            if self.settings.verifier is None:
                at, taken = self._follow(entries, at, len(entries), now, accepted)
                size += taken
            if at < len(entries):
                size += self._take_one(entries, at, now, accepted)
                at += 1
        self._taken = entries
        read, self._read = self._read, None
        self._pass(*((entries[-1][0], size) if read is None else (read.cursor, read.size)))
        self._lanes.watch(entries, len(self.sizes), self.has_more, self.cursor)
        if read is None:
            self._fit(len(entries), size, most_bytes)
        return accepted

    def _follow(self, entries: list[Any], at: int, end: int, now: float, accepted: list[Accepted]) -> tuple[int, int]:
        """Take the frames between these places that simply follow, up to the first that does not: where that is, and
        the bytes of frames until there. Without the native step none of them is known to follow."""
        if self._step is None:
            return at, 0
        known = self.states, self._heard, self._dirty
        return self._step.take_followers(entries, at, end, self, *known, now, Accepted, accepted)

    def _take_one(self, entries: list[Any], at: int, now: float, accepted: list[Accepted]) -> int:
        """Any entry, or put it aside; answers the bytes of its frame."""
        entry_id, fields = entries[at]
        size = 0
        self._came = max(self._came, _seconds(entry_id))
        try:
            data = _payload(fields)
            size = len(data)
            verifier = self.settings.verifier
            if verifier is not None:
                verifier.check(data, fields)
            if verifier is None or self._follow(entries, at, at + 1, now, accepted)[0] == at:
                self._judge(data, now, accepted)
        except FrameError as error:
            self._reject(entry_id, error, fields)
        except Exception as error:  # whatever it is: no entry of a stranger ends a worker
            self._reject(entry_id, unforeseen(error), fields)
        return size

    def _judge(self, data: bytes, now: float, accepted: list[Accepted]) -> None:
        """Any frame; those of samples that are applied go to ``accepted``. Raises FrameError."""
        frame = wire.decode(data)
        key = (frame.host, frame.resource_set)
        state = self.states.get(key) or self._newcomer(*key)
        self._heard[key] = now
        self._dirty[state.member] = state
        track = state.track
        if track.judge(frame) != APPLY:
            return
        try:
            self.sizes.check(frame)
        except LimitError:  # its number is taken, so that those after it are not held up
            track.forgo(frame)
            raise
        track.apply(frame)  # a table that cannot be read is rejected, and never asked for again
        if frame.kind == wire.KIND_SAMPLES:
            state.accept(frame)
            if track.contested:
                frame = contested(frame)
                data = wire.encode(frame)
            accepted.append(Accepted(self, state, frame.samples, data, frame))
        elif frame.kind == wire.KIND_TABLE:
            self._apply_table(state, frame)

    def _newcomer(self, host: int, resource_set: int) -> State:
        if keys.partition_of(host, self.partitions) != self.number:
            raise FrameError("partition", f"host {host:016x} does not belong to this partition")
        state = self.add(host, resource_set)
        self.extra += self.dormant.recall(state)
        return state

    def add(self, host: int, resource_set: int) -> State:
        """A new state of which nothing is known yet. Raises LimitError."""
        self.sizes.add(host, resource_set)
        state = self.states[(host, resource_set)] = State(self.tag, host, resource_set, self.settings.keep_ticks)
        return state

    def _apply_table(self, state: State, frame: Frame) -> None:
        before = b"" if state.names is None else state.names.payload
        rows = state.ids if state.metrics >= 0 else None
        payload = stamped(frame.payload, before, rows, self._when(time.time()))
        names = learn(state.names, payload)
        overflows = names.ids.size > self.settings.limits.entities
        if overflows:  # with names of entities that have gone since the last complete table
            names = learn(None, payload)
        self.sizes.check_table(frame.host, len(names.metrics), names.ids.size)
        self.name(state, names)
        if not is_own_name(names.host, frame.host):
            details = {"reason": f"calls itself {names.host[:_LONGEST_NAME]!r}, by the name of another host"}
            self.extra += self.rejections.tell(MISNAMED, frame.host, details, time.monotonic())
        if overflows:
            state.ask_for_table()
        self.extra.append(pack(("SET", state.names_key, names.payload)))

    def _when(self, now: float) -> float:
        """When the newest entry came by its shard's clock, seconds since 1970: a filter may catch up. Ids are chosen by
        who sends, within these bounds."""
        return min(now, max(self._came, now - _CATCH_UP))

    def name(self, state: State, names: NameTable) -> None:
        """Give a resource set its table."""
        state.track.name(is_own_name(names.host, state.host))
        state.learn(names, self.settings.tau_row(names.metrics))

    def _reject(self, entry_id: bytes, error: FrameError, fields: list[Any]) -> None:
        self.extra += self.rejections.add(entry_id, error, fields, time.monotonic())

    def give_up(self, accepted: Accepted, error: Exception) -> None:
        """Put the entry of a frame aside that could not be smoothed; its averages restart."""
        accepted.state.forget()
        for entry_id, fields in self._taken:
            if isinstance(fields, list) and len(fields) > 1 and fields[1][_NAMED] == accepted.data[_NAMED]:
                self._reject(entry_id, unforeseen(error), fields)
                break

    def also(self, command: bytes) -> None:
        """A packed command of one of the partition's keys that the next commit runs as well."""
        self.extra.append(command)

    def keep_record(self, prefix: bytes, command: bytes) -> None:
        """The packed SET of a record, to be run by the next commit; a newer one with the same ``prefix``, which names
        its key, replaces it."""
        self.records[prefix] = command

    # ---------------------------------------------------------------- committing

    def commit(self, fair_share: float = 0.0, full: bool = False) -> tuple[list[bytes], int]:
        """The pieces of the transaction and the number of replies that it will have; for a shard that
        is ``full``, a script that gives the entries of this commit up first.

        ``fair_share`` in samples/s (0: none) is the limit above which probes shed (filters.worker.loop.fair_share).
        """
        held, self.commit_id = self.commit_id, os.urandom(8).hex().encode()
        commands = [b"*1\r\n$5\r\nMULTI\r\n", *self.records.values(), *self.extra]
        count = len(self.records) + len(self.extra) + 1
        if self._dirty:
            positions = write_positions if self._step is None else self._step.write_positions
            commands.append(positions(self._applied, self._dirty))
            count += 1
        share = max(1, int(fair_share)) if fair_share else 0
        value = position.encode_commit(Commit(self.commit_id, self.cursor, self.rejections.count, share))
        commands.append(self._set_commit + word(value))
        commands.append(b"*1\r\n$4\r\nEXEC\r\n")
        self.discard()
        if full:
            return [self._commit_script(held, b"".join(commands[1:-1]))], 2
        return commands, count + 2

    def _commit_script(self, held: bytes, commands: bytes) -> bytes:
        self._kept.clear()
        return oom_commit.script(self.tag, held, _after(self.cursor), commands)

    def discard(self) -> None:
        """Forget what the next commit would have written."""
        self._renewed = False
        self._dirty, self.records, self.extra, self._taken = {}, {}, [], []

    def read_command(self, block_seconds: float) -> bytes:
        """WATCH, GET of the commit id, and the read that waits for entries: three replies."""
        wait = 0.001 if self._lanes.front else block_seconds  # the second reading has something to do
        count, block = b"%d" % self._most_entries, b"%d" % round(wait * 1000.0)
        starts = self._lanes.starts(self.cursor)
        streams = [_STREAMS, *[self._stream] * len(starts), *map(word, starts)]
        return b"".join((self._watch, _XREAD[len(starts)], word(count), _BLOCK, word(block), *streams))

    def trim_commands(self, now: float) -> list[bytes]:
        """XTRIM of what may go, as far as it is known by now, then HGETALL and TIME, whose replies are for
        ``hear_readers``; [] while nothing is due."""
        if now < self._trim_at and not self._kept.overflowing:
            return []
        self._trim_at = now + min(_TRIM_EVERY, self.settings.retention_seconds / 4.0)
        trim = self._kept.trim(now)
        commands = [self._look]
        if trim is not None:
            first = _after(trim.last)
            commands.insert(0, pack(("XTRIM", self.raw_key, "MINID", first)))
            if trim.cut:
                commands.insert(0, pack(("SET", keys.cut(self.tag), readers.encode_cut(Cut(first, 0)))))
        return commands

    def hear_readers(self, fields: list[Any], clock: list[bytes]) -> None:
        """Who else reads the stream, as its shard says."""
        self._kept.claim(readers.oldest_claim(fields, clock))

    def expire(self, now: float) -> bool:
        """Forget hosts that have sent this worker nothing for ``expire_seconds``; true when there is to be a commit for
        that, or because there has never been one. ``now`` is monotonic: no host's clock decides."""
        if not self.commit_id or self._renewed:  # so that it is noticed when the shard loses what little it has
            return True
        if now < self._expire_at:
            return False
        limit = self.settings.expire_seconds
        self._expire_at = now + min(_EXPIRE_EVERY, limit / 2)
        gone = [key for key in self.states if now - self._heard.setdefault(key, now) > limit]
        silent = {host for host, _ in gone} - {host for host, _ in self.states.keys() - set(gone)}
        self.extra += self.dormant.miss(seen_of(self.states, self._heard, silent, now), time.time())
        for key in gone:
            state = self.states.pop(key)
            self.sizes.remove(*key)
            del self._heard[key]
            self._dirty.pop(state.member, None)
            self.extra.append(pack(("HDEL", self.applied_key, state.member)))
            self.extra += self.dormant.keep(state)
            self.extra.append(pack(("DEL", state.names_key)))
        return bool(gone)

    def known(self) -> dict[int, Seen]:
        """All hosts that are here or on the roster, by id."""
        missed = (seen.decode(*pair) for pair in self.dormant.roster.items())
        here = seen_of(self.states, self._heard, {host for host, _ in self.states}, time.monotonic())
        return {one.host: one for one in (*missed, *here) if one is not None}

    def miss(self, hosts: Iterable[Seen]) -> None:
        """Put hosts on the roster that this partition held before its shard came back empty: until they come again."""
        self.extra += self.dormant.miss(hosts, time.time())


def write_positions(key: bytes, states: Mapping[bytes, State]) -> bytes:
    """The packed HSET of the positions of these states by their members; ``key`` are its packed first two words."""
    pairs = [word(member) + word(bytes(state.track)) for member, state in states.items()]
    return front(2 + 2 * len(pairs)) + key + b"".join(pairs)


def _payload(fields: Any) -> bytes:
    if not isinstance(fields, list) or len(fields) < 2 or fields[0] != keys.ENTRY_FIELD:
        raise FrameError("payload", "the entry has no field `f`")
    data: bytes = fields[1]
    return data


def _seconds(entry: bytes) -> float:
    return int(entry.partition(b"-")[0]) / 1000.0


def _after(entry: bytes) -> bytes:
    milliseconds, _, number = entry.partition(b"-")
    return b"%s-%d" % (milliseconds, int(number) + 1)
