"""Events recorded once, however many services see them, in capped streams.

There is one stream per partition, which the archive reads.

A service reports a state under a name (``hot:HOST``, ``worker``). A script in the shard compares it with the last
reported state and appends to the stream only if it differs, so several services record each change once, and a
restarted one continues where the last one stopped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from acquisition.link.cluster import Cluster, Command
from acquisition.link.resp import raise_for
from acquisition.wire import keys

#: A host claims VMs of others, recorded once a minute while it lasts; and the end of that.
CONFLICT, CONFLICT_OVER = "conflict", "conflict_over"
#: A VM has another name since it migrated, or the uuid of another VM; recorded once a minute while it lasts.
VM_RENAMED, VM_COPIED = "vm_renamed", "vm_copied"
#: The vCPUs of a VM run on two hosts at once, recorded once a minute while they do; and the end of that.
VM_TWICE, VM_ONCE = "vm_runs_twice", "vm_runs_once"
MISNAMED = "misnamed"  #: the tables of a host give it the name of another host
_KEEP_ENTRIES = 1000  #: per partition
_KEEP_MILLISECONDS = 30 * 86_400_000
#: KEYS: stream, hash of the last states; ARGV: name, state, when, turn, entries kept, milliseconds kept, fields.
_SCRIPT = """
local last = redis.call('HGET', KEYS[2], ARGV[1]) or ''
if ARGV[4] == 'change' and last == ARGV[2] then return 0 end
if ARGV[4] == 'end' and last == '' then return 0 end
if (ARGV[4] == 'begin' or ARGV[4] == 'remember') and last ~= '' then return 0 end
if ARGV[4] == 'remember' then
  local over = redis.call('HGET', KEYS[2], 'over:' .. ARGV[1])
  if over and tonumber(over) >= tonumber(ARGV[3]) then return 0 end
end
if ARGV[4] == 'end' then
  redis.call('HDEL', KEYS[2], ARGV[1])
  redis.call('HSET', KEYS[2], 'over:' .. ARGV[1], ARGV[3])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
redis.call('PEXPIRE', KEYS[2], ARGV[6])
if #ARGV > 6 then
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[5], '*', 'before', last, unpack(ARGV, 7))
  redis.call('PEXPIRE', KEYS[1], ARGV[6])
end
return 1
"""


class Turn(StrEnum):
    """Comparison of a state with the last reported one."""

    CHANGE = "change"  #: differs from the last one
    BEGIN = "begin"  #: there was none
    REMEMBER = "remember"  #: as BEGIN, recorded later than it was seen: unless its end has been recorded since
    END = "end"  #: there was one, and now there is not


class Happening(NamedTuple):
    """An event to record. Without ``kind``, the state is kept and nothing is appended."""

    name: str
    state: str
    turn: Turn
    since: float  #: when it was seen, seconds since 1970
    kind: str = ""
    host: str = ""  #: 16 hex digits
    details: Mapping[str, Any] = {}


class Entry(NamedTuple):
    """Appended event; ``before`` is the state it replaced, ``time`` is the shard's."""

    time: float
    kind: str
    host: int | None
    before: str
    details: Mapping[str, Any]


def commands(tag: str, happened: Sequence[Happening]) -> list[Command]:
    """Commands for ``Cluster.gather`` that record the events of one partition."""
    stream, hash_of = keys.events(tag), keys.told(tag)
    made: list[Command] = []
    for one in happened:
        since = str(round(one.since * 1000))
        rest = ("kind", one.kind, "host", one.host, "details", json.dumps(one.details)) if one.kind else ()
        made.append((stream, ("EVAL", _SCRIPT, 2, stream, hash_of, one.name, one.state, since, one.turn.value,
                              _KEEP_ENTRIES, _KEEP_MILLISECONDS, *rest)))  # fmt: skip
    return made


def appended(tag: str, kind: str, details: Mapping[str, Any], host: str = "") -> list[Command]:
    """Commands that record an event visible to one part only, without comparison. ``host`` in 16 hex
    digits."""
    stream = keys.events(tag)
    fields = ("before", "", "kind", kind, "host", host, "details", json.dumps(details))
    add = ("XADD", stream, "MAXLEN", "~", _KEEP_ENTRIES, "*", *fields)
    return [(stream, add), (stream, ("PEXPIRE", stream, _KEEP_MILLISECONDS))]


def read_told(cluster: Cluster, tags: Sequence[str]) -> dict[str, dict[str, str]]:
    """Last reported states, by tag and name. Raises ShardError and errors answered by a shard."""
    names = [keys.told(tag) for tag in tags]
    found: dict[str, dict[str, str]] = {}
    for tag, reply in zip(tags, cluster.gather([(name, ("HGETALL", name)) for name in names]), strict=True):
        words = [word.decode("utf-8", "surrogateescape") for word in raise_for(reply)]
        found[tag] = dict(zip(words[::2], words[1::2], strict=True))
    return found


def decode(entry: bytes, fields: Any) -> Entry | None:
    """The event in an entry of the stream; None for a foreign entry."""
    try:
        known = {key.decode(): value.decode() for key, value in zip(fields[::2], fields[1::2], strict=True)}
        details = json.loads(known["details"])
        host = int(known["host"], 16) if known["host"] else None
        time = int(entry.partition(b"-")[0]) / 1000.0
        made = Entry(time, known["kind"], host, known["before"], details)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        return None
    sound = isinstance(details, dict) and (host is None or host < 1 << 64) and _is_text(made)
    return made if sound else None


def _is_text(made: Entry) -> bool:
    """Whether databases accept all of it: no NUL, and no lone surrogate, which ``jsonb`` refuses."""
    try:
        said = json.dumps([made.kind, made.before, made.details], ensure_ascii=False)
        return b"\\u0000" not in said.encode()
    except UnicodeEncodeError:
        return False
