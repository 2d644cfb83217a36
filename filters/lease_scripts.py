"""What a worker asks of a partition's shard about its lease, as scripts: each one is atomic.

Times are the shard's own (TIME), so no worker's clock decides. Each script begins with a write
that frees memory (or does nothing else), so that leases work on a shard that is full as well
(``filters.full_commit``). After the shard's clock was set back no lease and no worker lasts longer
than its own term from now.
"""

from __future__ import annotations

import hashlib

from acquisition.link.resp import pack
from acquisition.wire import keys

#: KEYS lease, workers; ARGV the worker, its term in milliseconds, whether to take a free lease.
#: Answers how long the lease lasts yet (< 0: nobody holds it), who holds it ("" or the holder) and
#: all live workers that reach the shard.
_VISIT = """\
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local term = tonumber(ARGV[2])
local function term_of(worker) return tonumber(string.match(worker, '^%S+ (%d+) ')) or term end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
for _, worker in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. now + term, '+inf')) do
  redis.call('ZADD', KEYS[2], 'LT', now + term_of(worker), worker)
end
redis.call('ZADD', KEYS[2], now + term, ARGV[1])
redis.call('PEXPIRE', KEYS[2], 2 * term)
local holder = redis.call('GET', KEYS[1])
if not holder and ARGV[3] == '1' then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', term)
  holder = ARGV[1]
elseif holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], term)
end
local left = redis.call('PTTL', KEYS[1])
if holder and (left == -1 or left > term_of(holder)) then
  left = term_of(holder)
  redis.call('PEXPIRE', KEYS[1], left)
end
local answer = redis.call('ZRANGE', KEYS[2], 0, -1)
table.insert(answer, 1, left)
table.insert(answer, 2, holder or '')
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


class Commands:
    """The packed commands of one worker about one partition; the scripts must be loaded."""

    def __init__(self, tag: str, worker: bytes, milliseconds: int) -> None:
        lease, workers = keys.lease(tag), keys.workers(tag)
        self.look = pack(("EVALSHA", _VISIT_SHA, 2, lease, workers, worker, milliseconds, 0))
        self.take = pack(("EVALSHA", _VISIT_SHA, 2, lease, workers, worker, milliseconds, 1))
        self.give = pack(("EVALSHA", _GIVE_SHA, 2, lease, workers, worker, 0))
        self.leave = pack(("EVALSHA", _GIVE_SHA, 2, lease, workers, worker, 1))
        self.remove = pack(("DEL", lease, workers))
