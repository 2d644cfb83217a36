"""Forbidden commands of shard users, and the form of a refusal."""

from __future__ import annotations

#: What no user of the pipeline may do: each would give away, change or end more than the pipeline's own data.
FORBIDDEN = [
    "CONFIG SET dir /tmp", "CONFIG SET dbfilename x.so", "CONFIG SET maxmemory 1", "CONFIG GET *",
    "CONFIG GET masterauth", "CONFIG REWRITE", "CONFIG RESETSTAT", "MODULE LOAD /tmp/x.so", "MODULE LIST", "SAVE",
    "BGSAVE", "BGREWRITEAOF", "DEBUG SEGFAULT", "DEBUG SLEEP 5", "FLUSHALL", "FLUSHDB", "SHUTDOWN NOSAVE",
    "CLUSTER MEET 127.0.0.1 1",
    "CLUSTER RESET HARD", "CLUSTER FORGET x", "CLUSTER ADDSLOTS 1", "CLUSTER DELSLOTS 1", "CLUSTER FAILOVER TAKEOVER",
    "CLUSTER REPLICATE x", "CLUSTER SETSLOT 1 STABLE", "CLUSTER SET-CONFIG-EPOCH 9", "CLUSTER FLUSHSLOTS",
    "ACL LIST", "ACL SETUSER default on nopass +@all ~*", "ACL LOAD", "ACL GETUSER default", "CLIENT LIST",
    "CLIENT KILL TYPE normal", "CLIENT PAUSE 1000", "REPLICAOF 127.0.0.1 1", "SLAVEOF NO ONE", "PSYNC ? -1", "SYNC",
    "REPLCONF listening-port 1", "MIGRATE 127.0.0.1 1 x 0 10", "RESTORE x 0 y", "DUMP x", "KEYS *", "RANDOMKEY",
    "SWAPDB 0 1", "RENAME x y", "MONITOR", "SLOWLOG GET", "LATENCY RESET", "OBJECT ENCODING x", "MEMORY DOCTOR",
    "SUBSCRIBE x", "PSUBSCRIBE *", "PUBLISH x y", "SSUBSCRIBE x", "SPUBLISH x y", "FUNCTION LOAD x", "FUNCTION FLUSH",
    "FCALL x 0", "FAILOVER", "SCRIPT FLUSH", "SCRIPT KILL", "SORT x", "COPY x y", "WAIT 1 1000",
    "PFDEBUG GETREG x", "LOLWUT",
]  # fmt: skip


def refused(reply: object) -> bool:
    """Whether a server has answered that this user may not do it."""
    closed = ("ERR MODULE command not allowed", "ERR DEBUG command not allowed")  # to everybody, by Redis 7
    return str(reply).startswith(("NOPERM", "NOAUTH", "ERR unknown command", "ERR Unknown subcommand", *closed))
