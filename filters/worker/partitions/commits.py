"""Commits of a partition: a transaction, or a script that frees memory first.

At ``maxmemory`` with ``noeviction`` a transaction that writes is refused as a whole. A script is
refused only at its first command that takes memory, and no more once it has written anything
(scripts without a shebang, redis.io/docs/manual/programmability/eval-intro; tried with 7.0.15). So
the script begins with XTRIM: the entries that the commit covers go, the averages stay. It waits for no other reader of
the stream and leaves these a mark (``acquisition.wire.readers``). A script is
not rolled back; whatever could fail is asked for before the first write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import hiredis

from acquisition.link.resp import Argument, front, packed, word
from acquisition.wire import keys, position
from acquisition.wire.position import LUA_ID, Commit
from filters.worker.inputs.growing import GROW
from filters.worker.partitions.batch import Batch
from filters.worker.states.state import State
from filters.worker.step.native import Step

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
    """The pieces of a commit, as they are sent, and how many replies it has: the last one says whether it was made."""

    pieces: list[bytes]
    replies: int


class CommitEncoder:
    """Encodes the commits of the partition of a ``tag``."""

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
        """The same for a full shard, see ``script``."""
        return Sent([script(self._tag, batch.held, until, b"".join(self._commands(batch, new)))], 2)

    def _commands(self, batch: Batch, new: Commit) -> list[bytes]:
        commands = [*batch.records.values(), *batch.extra]
        if batch.dirty:
            commands.append(self._positions(self._applied, batch.dirty))
        commands.append(self._set_commit + word(position.encode_commit(new)))
        return commands


def write_positions(key: bytes, states: Mapping[bytes, State]) -> bytes:
    """The packed HSET of the positions of these states by their members; ``key`` are its packed first two words."""
    pairs = [word(member) + word(bytes(state.track)) for member, state in states.items()]
    return front(2 + 2 * len(pairs)) + key + b"".join(pairs)


def script(tag: str, held: bytes, until: bytes, commands: bytes) -> bytes:
    """UNWATCH and EVAL, packed: two replies, the second None when the commit id is not ``held``.

    ``commands`` are the packed commands of the transaction, whose only script is that of a growing ring; ``until`` is
    the first entry to stay.
    """
    names: list[Argument] = [key(tag) for key in (keys.commit, keys.raw, keys.applied, keys.readers, keys.cut)]
    arguments: list[Argument] = [held, until]
    for command in _unpacked(commands):
        names.append(command[3 if command[0] == b"EVAL" else 1])
        arguments += (len(command), *command)
    return packed(("UNWATCH",)) + packed(("EVAL", _SCRIPT, len(names), *names, *arguments))


def _unpacked(commands: bytes) -> Iterator[list[bytes]]:
    """The commands again, long HSETs in several."""
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
