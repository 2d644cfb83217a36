"""Refusals due to each shard user, listed by hand.

The table that is tested is not used.
"""

from __future__ import annotations

import itertools

from acquisition.shards.servers import grants
from acquisition.wire import keys
from tests.support.forbidden import FORBIDDEN
from tests.support.granted import HOST, TAG

#: Of the commands that give away, change or end a server, those that a user's work needs.
_NEEDED = {
    grants.OPERATOR: (
        "CONFIG SET", "CONFIG GET", "CLUSTER", "CLIENT LIST", "MIGRATE", "RESTORE", "ACL LIST",
    ),
    grants.KEEPER: ("CONFIG SET", "ACL SETUSER", "ACL GETUSER", "CLIENT KILL"),
    grants.REPLICATION: ("PSYNC", "REPLCONF"),
}  # fmt: skip
#: Which data a user may not touch, ``{}`` for a partition.
WRITES = [
    "SET {} x", "XTRIM {} MAXLEN 0", "DEL {}", "XADD {} * f x", "HSET {} a b", "EXPIRE {} 1", "ZADD {} 1 x",
    "HDEL {} a",
    "EVAL return(redis.call('del',KEYS[1])) 1 {}", "EVALSHA x 1 {}", "UNLINK {}", "GETDEL {}", "APPEND {} x",
]  # fmt: skip
READS = ["GET {}", "HGETALL {}", "XRANGE {} - +", "XREAD STREAMS {} 0", "GETRANGE {} 0 1", "ZRANGE {} 0 -1", "DUMP {}"]
_PARTITION = [
    f"{name}:{{{{tag}}}}"
    for name in ("raw", "commit", "applied", "rejected", "refused", "lease", "readers", "told", "layout")
]
_RECORDS = [f"{name}:{{{{tag}}}}:{HOST}:00000001:0" for name in ("smoothed", "recent", "names")]
_EVERYWHERE = [*_PARTITION, *_RECORDS, keys.MIGRATIONS, keys.OPERATING, "something"]


def beyond(user: str) -> list[str]:
    """What a user must be refused: the server, and all data that is not for it."""
    server = [command for command in FORBIDDEN if not command.startswith(_NEEDED.get(user, ("?",)))]
    data = [
        command.replace("{}", key.replace("{{tag}}", f"{{{TAG}}}"))
        for command, key in itertools.product((*READS, *WRITES), _EVERYWHERE)
        if not allowed(user, command.split()[0].lower(), key)
    ]
    return [*server, *data]


def allowed(user: str, command: str, key: str) -> bool:
    """What the work of a user is."""
    name = key.partition(":{")[0]
    if user == grants.PROBE:
        reads = {"get", "xrange"} if name in ("commit", "applied", "rejected", "layout") else set()
        return command in reads | ({"xadd"} if name == "raw" else set())
    if user in (grants.REPLICATION, grants.KEEPER):
        return False
    reading = {"get", "hgetall", "xrange", "getrange", "zrange"}
    if user in (grants.READER, grants.OBSERVER):
        return command in reading
    if user == grants.SERVE:
        tells = {"hset", "hdel", "xadd", "eval"} if name == "told" else {"xadd"} if name == keys.MIGRATIONS else set()
        return command in reading | tells
    if user == grants.ARCHIVE:
        tells = {"hset", "hdel", "xadd", "eval"} if name == "told" else {"hset"} if name == "readers" else set()
        return command in reading | {"xread"} | tells
    if user == grants.OPERATOR:
        forgets = {"applied": {"hdel"}, "names": {"del"}}.get(name, set())
        return command in {"get", "set", "hgetall", "xtrim"} | forgets
    if name in ("raw", "commit", "applied", "rejected", "refused", "lease", "smoothed", "recent", "names", "readers"):
        return command in reading - {"xrange"} | {
            "xread", "set", "xtrim", "del", "xadd", "hset", "hdel", "expire", "zadd", "eval", "evalsha",
        }  # fmt: skip
    return name == "layout" and command in {"get", "set"}
