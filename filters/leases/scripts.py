"""Lease scripts run by a partition's shard, each one atomic.

Times are the shard's own (TIME), so no worker's clock matters; after that clock was set back,
no lease and no worker lasts longer than its own term from then. A lease proves that its holder is
alive; other workers register in the sorted set ``workers``. The first write of each script
frees memory or takes none, so that leases also work on a full shard
(``filters.worker.partitions.partition``).
"""

from __future__ import annotations

import hashlib

from acquisition.link.resp import Argument, packed
from acquisition.wire import keys

#: KEYS lease, workers; ARGV the worker, its term in milliseconds, whether to take a free lease.
#: Returns the remaining time of the lease, its holder ("": none), and the other live workers.
_VISIT = """\
local me, term = ARGV[1], tonumber(ARGV[2])
local holder = redis.call('GET', KEYS[1])
if holder == me then redis.call('PEXPIRE', KEYS[1], term) end
local members = redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
local answer = {term, holder or ''}
if holder == me and #members == 0 then return answer end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function term_of(worker) return tonumber(string.match(worker, '^%S+ (%d+) ')) or term end
local gone = {KEYS[2], me}
for i = 1, #members, 2 do
  local worker, ends = members[i], tonumber(members[i + 1])
  if ends <= now or ends > now + term_of(worker) then
    gone[#gone + 1] = worker
  elseif worker ~= me then
    answer[#answer + 1] = worker
  end
end
if holder ~= me or #gone > 2 then redis.call('ZREM', unpack(gone)) end
if holder == me then return answer end
if not holder and ARGV[3] == '1' then
  redis.call('SET', KEYS[1], me, 'PX', term)
  answer[2] = me
  return answer
end
redis.call('ZADD', KEYS[2], now + term, me)
answer[#answer + 1] = me
if holder then
  answer[1] = redis.call('PTTL', KEYS[1])
  if answer[1] < 0 or answer[1] > term_of(holder) then
    answer[1] = term_of(holder)
    redis.call('PEXPIRE', KEYS[1], answer[1])
  end
end
return answer
"""

#: KEYS lease, workers; ARGV the worker, whether it leaves altogether.
_GIVE = """\
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
if ARGV[2] == '1' then redis.call('ZREM', KEYS[2], ARGV[1]) end
return 1
"""
SCRIPTS = (_VISIT, _GIVE)
_VISIT_SHA, _GIVE_SHA = (hashlib.sha1(script.encode()).hexdigest() for script in SCRIPTS)
_TEXTS: dict[Argument, str] = {_VISIT_SHA: _VISIT, _GIVE_SHA: _GIVE}


def visit(lease: str, workers: str, worker: bytes, milliseconds: int, take: bool) -> tuple[Argument, ...]:
    """Renews or inspects a lease, or takes a free one; ``lease`` and ``workers`` are keys."""
    return ("EVALSHA", _VISIT_SHA, 2, lease, workers, worker, milliseconds, int(take))


def give(lease: str, workers: str, worker: bytes, leave: bool) -> tuple[Argument, ...]:
    """Releases a lease; ``leave``: the worker leaves altogether."""
    return ("EVALSHA", _GIVE_SHA, 2, lease, workers, worker, int(leave))


def in_full(command: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """The command for a shard that has not loaded the script."""
    return ("EVAL", _TEXTS[command[1]], *command[2:])


class Commands:
    """Packed commands of one worker for one partition; the scripts must be loaded."""

    def __init__(self, tag: str, worker: bytes, milliseconds: int) -> None:
        names = keys.lease(tag), keys.workers(tag)
        self.look = packed(visit(*names, worker, milliseconds, False))
        self.take = packed(visit(*names, worker, milliseconds, True))
        self.give = packed(give(*names, worker, False))
        self.leave = packed(give(*names, worker, True))
        self.remove = packed(("DEL", *names))
