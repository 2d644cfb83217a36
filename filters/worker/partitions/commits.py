"""The commit of a partition on a shard that is full: the same commands as a script that frees first.

At ``maxmemory`` with ``noeviction`` a transaction that writes is refused as a whole. A script is
refused only at its first command that takes memory, and no more once it has written anything
(scripts without a shebang, redis.io/docs/manual/programmability/eval-intro; tried with 7.0.15). So
this one begins with XTRIM: the entries that the commit covers go, the averages stay. It waits for no other reader of
the stream and leaves these a mark (``acquisition.wire.readers``). A script is
not rolled back; whatever could fail is asked for before the first write.
"""

from __future__ import annotations

from collections.abc import Iterator

import hiredis

from acquisition.link.resp import Argument, packed
from acquisition.wire import keys
from acquisition.wire.position import LUA_ID
from filters.worker.inputs.growing import GROW

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
