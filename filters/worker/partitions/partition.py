"""Partition of a filter worker, and the commit of its batches.

A commit is one transaction: smoothed records, applied positions, names, rejected entries,
and ``commit:{tag}`` with a fresh random id and the cursor. The worker WATCHes that key and
reads it back before every read of the stream: if the id is not its own last one, another
worker has committed (or the shard came back empty), and state and cursor are loaded again.

At ``maxmemory`` with ``noeviction`` a transaction that writes is refused as a whole. A script is
refused only at its first command that takes memory, and no longer once it has written anything
(scripts without a shebang, redis.io/docs/manual/programmability/eval-intro; tested with 7.0.15). So
the script begins with XTRIM: the entries covered by the commit are removed, the averages stay. It does not wait for
other readers of the stream and leaves them a mark (``acquisition.wire.readers``). A script is
not rolled back; all checks that can fail precede the first write.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import hiredis

from acquisition.link.resp import Argument, front, packed, word
from acquisition.wire import keys, position
from acquisition.wire.position import LUA_ID, Commit
from acquisition.wire.seen import Seen
from filters.worker.inputs.growing import GROW
from filters.worker.partitions.batch import Batch, Intake
from filters.worker.partitions.raw_stream import MOST_BYTES, START, Entries, RawStream, after
from filters.worker.partitions.rejections import Rejections
from filters.worker.partitions.resource_sets import ResourceSets
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.state import State
from filters.worker.step.native import Step

_OPEN = b"open"  #: an id of no commit, from the opening of a batch until its commit
_MULTI, _EXEC = front(1, "MULTI"), front(1, "EXEC")
_SCRIPT = f"""\
{GROW}\
local value = redis.call('GET', KEYS[1])
if string.match(value or '', '{LUA_ID}') ~= ARGV[1] then return false end
redis.call('HLEN', KEYS[3])
local reading = redis.call('HLEN', KEYS[4])
local gone = redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2])
if reading > 0 and gone > 0 then redis.call('SET', KEYS[5], ARGV[2] .. ' ' .. gone) end
local at = 3
while ARGV[at] do
  local count = tonumber(ARGV[at])
  if ARGV[at + 1] == 'EVAL' then grow_ring(unpack(ARGV, at + 4, at + count))
  else redis.call(unpack(ARGV, at + 1, at + count)) end
  at = at + count + 1
end
return 1
"""
_MOST_FIELDS = 1000  #: of one HSET: Lua's unpack takes some 8,000 values at most


class Sent(NamedTuple):
    """Pieces of a commit in sending order, and its number of replies: the last one shows whether it was made."""

    pieces: list[bytes]
    replies: int


class CommitEncoder:
    """Encodes the commits of the partition with a ``tag``."""

    def __init__(self, tag: str, step: Step | None) -> None:
        self._tag = tag
        self._set_commit = front(3, "SET", keys.commit(tag))
        self._applied = word(b"HSET") + word(keys.applied(tag).encode())
        self._positions = write_positions if step is None else step.write_positions

    def transaction(self, batch: Batch, new: Commit) -> Sent:
        """Records, other commands, positions, and the commit itself."""
        commands = self._commands(batch, new)
        return Sent([_MULTI, *commands, _EXEC], len(commands) + 2)

    def script(self, batch: Batch, new: Commit, until: bytes) -> Sent:
        """The commit for a full shard, see ``script``."""
        return Sent([script(self._tag, batch.held, until, b"".join(self._commands(batch, new)))], 2)

    def _commands(self, batch: Batch, new: Commit) -> list[bytes]:
        commands = [*batch.records.values(), *batch.extra]
        if batch.dirty:
            commands.append(self._positions(self._applied, batch.dirty))
        commands.append(self._set_commit + word(position.encode_commit(new)))
        return commands


class Partition:
    """Owner of the parts of a partition, each of which has one job.

    ``commit_id`` is empty if nothing was ever committed.
    """

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
        self.settings = settings
        self.commit_id = b""
        self._pending: list[bytes] = []  #: first commands of the next batch
        self.stream = RawStream(tag, settings)
        self.sets = ResourceSets(number, tag, partitions, settings)
        self.rejections = Rejections(tag)
        self._intake = Intake(self.sets, settings, step)
        self._encoder = CommitEncoder(tag, step)
        self._renewed = False  #: whether the stream is another one, which is not in a commit yet

    def resume(self, commit_id: bytes, cursor: bytes = START, rejected: int = 0) -> None:
        """Continue after a commit by this or another worker."""
        self.commit_id = commit_id
        self.stream.resume(cursor)
        self._intake.resume(cursor)
        self.rejections.resume(rejected)

    def renew(self) -> None:
        """The stream was read to its end and removed (filters.worker.loop.guard): continue at its beginning."""
        self.stream.renew()
        self._renewed = True

    def batch(self, entries: Entries, most_bytes: int = MOST_BYTES) -> Batch:
        """Process the entries of one read in a batch, which may be committed until its context ends; see
        RawStream.advance for ``most_bytes``.

        A batch that ends without a commit is discarded as a whole, and the partition with it: its states have moved on,
        so its next read is refused and it is loaded again.
        """
        batch = Batch(self.number, self.rejections, self.commit_id, entries, self._pending)
        self.commit_id, self._pending = _OPEN, []
        if entries:
            size = self._intake.take(batch)
            self.stream.advance(entries, size, self.sets.sizes, most_bytes)
        return batch

    def commit(self, batch: Batch, fair_share: float = 0.0, full: bool = False) -> Sent:
        """The commit of a batch: a transaction, or for a ``full`` shard a script that first removes its
        entries.

        ``fair_share`` in samples/s (0: none): limit above which probes shed (filters.worker.loop.fair_share).
        """
        self.commit_id = os.urandom(8).hex().encode()
        share = max(1, int(fair_share)) if fair_share else 0
        new = Commit(self.commit_id, self.stream.cursor, self.rejections.count, share)
        self._renewed = False
        if not full:
            return self._encoder.transaction(batch, new)
        self.stream.retention.kept.clear()
        return self._encoder.script(batch, new, after(new.cursor))

    def expire(self, now: float) -> bool:
        """Forget hosts without frames to this worker for ``expire_seconds``; true if that requires a commit,
        or if there has never been one. ``now`` is monotonic: no host's clock matters."""
        if not self.commit_id or self._renewed:  # so that it is noticed when the shard loses even little data
            return True
        if now < self.sets.expire_at:
            return False
        commands = self.sets.expire(now)
        self._pending += commands
        return bool(commands)

    def miss(self, hosts: Iterable[Seen]) -> None:
        """Put hosts on the roster that this partition had before its shard came back empty: until they return."""
        self._pending += self.sets.dormant.miss(hosts, time.time())

    def also(self, command: bytes) -> None:
        """Start the next batch with a packed command of one of the partition's keys."""
        self._pending.append(command)


def write_positions(key: bytes, states: Mapping[bytes, State]) -> bytes:
    """Packed HSET of the positions of these states by their members; ``key``: its packed first two words."""
    pairs = [word(member) + word(bytes(state.track)) for member, state in states.items()]
    return front(2 + 2 * len(pairs)) + key + b"".join(pairs)


def script(tag: str, held: bytes, until: bytes, commands: bytes) -> bytes:
    """UNWATCH and EVAL, packed: two replies, the second None if the commit id is not ``held``.

    ``commands``: packed commands of the transaction, with that of a growing ring as the only script; ``until``:
    the first entry to keep.
    """
    names: list[Argument] = [key(tag) for key in (keys.commit, keys.raw, keys.applied, keys.readers, keys.cut)]
    arguments: list[Argument] = [held, until]
    for command in _unpacked(commands):
        names.append(command[3 if command[0] == b"EVAL" else 1])
        arguments += (len(command), *command)
    return packed(("UNWATCH",)) + packed(("EVAL", _SCRIPT, len(names), *names, *arguments))


def _unpacked(commands: bytes) -> Iterator[list[bytes]]:
    """The unpacked commands, with long HSETs split."""
    reader = hiredis.Reader()
    reader.feed(commands)
    while (command := reader.gets()) is not False:
        assert isinstance(command, list)
        if command[0] != b"HSET":
            yield command
            continue
        step = 2 * _MOST_FIELDS
        for first in range(2, len(command), step):
            yield command[:2] + command[first : first + step]
