"""Faults of memory: a shard that has no room left."""

from __future__ import annotations

from collections.abc import Iterator

from acquisition.wire import keys
from acquisition.wire.keys import DEFAULT_PARTITIONS
from experiments.chaos.faults.targets import master_of, until
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind
from experiments.processes.access import MASTER_KEY
from experiments.testbed import Node

_JUNK_BYTES = (1 << 20, 1 << 15, 1 << 10)  #: decreasing sizes of values, until even the smallest do not fit
_MOST_JUNK = 2000


@kind("memory", "shard", 3.0, 7.0, 1.0)
def fill_memory(installation: Installation, fault: Fault) -> Iterator[None]:
    """A foreign client writes until the master has no room left; healed, its keys are deleted."""
    master = master_of(installation, fault)
    cluster = installation.connect(user=MASTER_KEY)
    try:
        tag = next(tag for tag in keys.tags(DEFAULT_PARTITIONS) if cluster.owner(keys.raw(tag)) == master.address)
        junk = [f"junk:{{{tag}}}:{number}" for number in range(_MOST_JUNK)]
        free = iter(junk)
        for size in _JUNK_BYTES:
            while not _failed(cluster.gather([((key := next(free)), ("SET", key, bytes(size)))])):
                pass
        yield
        until(lambda: not _failed(cluster.gather([(key, ("UNLINK", key)) for key in junk])), "junk stays")
    finally:
        cluster.close()


@kind("memory", "shard", 3.0, 7.0, 1.0)
def limit_memory(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's maxmemory is set to less than it uses: it refuses every write, the filter's as well."""
    master = master_of(installation, fault)
    used = next(line for line in master.call("INFO", "memory").decode().split() if line.startswith("used_memory:"))
    master.call("CONFIG", "SET", "maxmemory", int(int(used.partition(":")[2]) * 0.9))
    try:
        yield
    finally:
        until(lambda: _relieve(installation, master), f"{master} does not take its memory limit back")


def _relieve(installation: Installation, master: Node) -> bool:
    """Restore a node's limit; a dead one starts with it."""
    if master.alive:
        master.call("CONFIG", "SET", "maxmemory", installation.options.maxmemory_bytes)
    return True


def _failed(replies: list[object]) -> bool:
    return any(isinstance(reply, Exception) for reply in replies)
