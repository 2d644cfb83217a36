"""Server configuration common to all shards, local or run by systemd."""

from __future__ import annotations

from collections.abc import Mapping


def shared(core: int, directory: str, maxmemory: int, release: tuple[int, ...]) -> dict[str, str]:
    """Directives independent of where a shard listens and how it is started, for Redis from 6.2 on and Valkey.

    Nothing is written to disk and nothing is evicted: a full shard refuses (OOM), which
    is back-pressure, and the probe's outbox keeps what was refused. A shard that lost some
    slots still serves the others. The CPU lists are written with underscores, because
    Redis refuses the hyphen before 7.4.
    """
    lists = ("server_cpulist", "bio_cpulist", "aof_rewrite_cpulist", "bgsave_cpulist")
    return {
        "protected-mode": "yes",
        "tcp-backlog": "4096",  # all hosts may connect at once: beyond Redis' 511 the kernel would drop them
        "tcp-keepalive": "60",
        "timeout": "0",
        "daemonize": "no",
        "dir": quoted(directory),
        "save": '""',
        "appendonly": "no",
        "stop-writes-on-bgsave-error": "no",
        "rdbcompression": "no",  # moving a partition takes half the time: floating-point noise does not shrink
        "maxmemory": str(maxmemory),
        "maxmemory-policy": "noeviction",
        "cluster-enabled": "yes",
        "cluster-config-file": "nodes.conf",
        "cluster-node-timeout": "2000",  # a replica takes over about twice as long after its master has died
        "cluster-require-full-coverage": "no",
        "repl-diskless-sync-delay": "0",  # a replica that has not synchronized does not take over
        "repl-diskless-load": "on-empty-db",
        "rdb-del-sync-files": "yes",  # else a replica keeps its first copy on disk, and starts again with that
        "slowlog-log-slower-than": "-1",
        "latency-monitor-threshold": "0",
        "jemalloc-bg-thread": "no",  # this thread alone would not be covered by the CPU lists
        **dict.fromkeys(lists, str(core)),
        **({"latency-tracking": "no", "shutdown-timeout": "0"} if release >= (7,) else {}),
    }


def loading(module: str) -> dict[str, str]:
    """The directive that loads a module; empty without one."""
    return {"loadmodule": quoted(module)} if module else {}


def tls(certificate: str, key: str, authority: str) -> dict[str, str]:
    """TLS for the cluster bus, replication and MIGRATE, with these files."""
    return {
        "tls-cluster": "yes",
        "tls-replication": "yes",
        "tls-cert-file": quoted(certificate),
        "tls-key-file": quoted(key),
        "tls-ca-cert-file": quoted(authority),
    }


def users(file: str, replica: str, password: str) -> dict[str, str]:
    """File with the list of users, and the user of replicas at their masters."""
    return {"aclfile": quoted(file), "masteruser": replica, "masterauth": password}


def text(directives: Mapping[str, str]) -> str:
    """Content of the file."""
    return "".join(f"{key} {value}\n" for key, value in directives.items())


def quoted(text: str) -> str:
    """A string quoted for redis.conf (sdssplitargs)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
