"""Resources of this machine: cores, memory, free ports, processes.

Processes are identified by id and start time.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from pathlib import Path

from acquisition.errors import CannotCreateError, UsageError

SHARDS_PER_CORE = 4  #: at most; more only wait for each other
BUS_OFFSET = 10000  #: a shard's cluster bus listens on its port + this (Redis Cluster specification)
#: Ports to choose from: unprivileged, they and their bus ports below the kernel's ephemeral range (32768),
#: and no port is the bus port of another.
_PORTS = range(10240, 10240 + BUS_OFFSET)
_TLS_PORTS = range(_PORTS.stop + BUS_OFFSET, 32768)  #: for MIGRATE with TLS: the rest below the ephemeral ones
FIRST_PORT = 7600  #: of shards started by people; those of tests and demos take any
_SERVE_PORT = 7680  #: default port of `shardpulse serve`
_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cores() -> list[int]:
    """The cores that this process may use: fewer than the machine has in a container or under taskset."""
    return sorted(os.sched_getaffinity(0))


def check_cores(wanted: list[int]) -> None:
    """Raise CannotCreateError for a missing core: Redis would ignore it silently."""
    usable = cores()
    for core in wanted:
        if core not in usable:
            listed = ",".join(map(str, usable))
            raise CannotCreateError(f"core {core} is not available: this process may use {listed}")


def check_count(count: int, cores: int) -> None:
    """Raise UsageError for more shards than ``cores`` can run without being overloaded."""
    most = SHARDS_PER_CORE * cores
    if count > most:
        raise UsageError(f"too many shards for {cores} cores: {count}, at most {most} ({SHARDS_PER_CORE} per core)")


def memory_bytes() -> int:
    """Memory of this machine, or of this container if that is less."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CGROUP_LIMITS:
        with contextlib.suppress(OSError, ValueError):  # absent, or the word "max"
            total = min(total, int(Path(path).read_text()))
    return total


def port_is_free(port: int, host: str = "127.0.0.1") -> bool:
    """Whether a server could listen on ``port`` now."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as redis-server does
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """Random ports that are free together with their bus ports. Another program may take one before
    it is used, so the caller retries. Raises CannotCreateError if there are not enough."""
    found: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(found) == count:
            break
        if port_is_free(port, host) and port_is_free(port + BUS_OFFSET, host):
            found.append(port)
    if len(found) < count:
        raise CannotCreateError(f"only {len(found)} of {count} free ports found on {host}")
    return found


def free_tls_port(host: str = "127.0.0.1") -> int:
    """A random free port that ``free_ports`` never returns. Raises CannotCreateError if there is none."""
    for port in random.sample(_TLS_PORTS, len(_TLS_PORTS)):
        if port_is_free(port, host):
            return port
    raise CannotCreateError(f"no free port found on {host} from {_TLS_PORTS.start} to {_TLS_PORTS.stop - 1}")


def next_ports(count: int, host: str = "127.0.0.1", first: int = FIRST_PORT) -> list[int]:
    """The lowest free ports from ``first`` on with free bus ports; those in use by other programs are skipped.

    Raises CannotCreateError if there are not enough.
    """
    found: list[int] = []
    for port in range(first, min(first + BUS_OFFSET, 65536 - BUS_OFFSET)):
        if len(found) == count:
            break
        if port != _SERVE_PORT and port_is_free(port, host) and port_is_free(port + BUS_OFFSET, host):
            found.append(port)
    if len(found) < count:
        raise CannotCreateError(f"only {len(found)} of {count} free ports found on {host} from {first} on")
    return found


def fixed_ports(base: int, count: int, host: str = "127.0.0.1") -> list[int]:
    """``count`` ports from ``base`` on. Raises CannotCreateError naming the first one in use."""
    ports = list(range(base, base + count))
    if ports[-1] + BUS_OFFSET > 65535:
        raise CannotCreateError(f"port {ports[-1]} is too high: its cluster bus would use {ports[-1] + BUS_OFFSET}")
    for port in ports:
        for needed, use in ((port, ""), (port + BUS_OFFSET, f" (the cluster bus of port {port})")):
            if not port_is_free(needed, host):
                raise CannotCreateError(f"port {needed}{use} is in use on {host}: choose another base port")
    return ports


def start_time(pid: int) -> int | None:
    """Start of a process, in clock ticks since boot: together with the pid an identity that is never
    reused (proc(5), field 22). None if it is gone or only a zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()  # the preceding command may contain spaces and parentheses
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def is_pinned(pid: int, core: int) -> bool:
    """Whether every thread of a process may run on ``core`` only."""
    return cores_of(pid) == str(core)


def cores_of(pid: int) -> str:
    """Cores that the threads of a process may run on (proc(5), Cpus_allowed_list), different lists side by side; ""
    if it is gone."""
    allowed: set[str] = set()
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            lines = (task / "status").read_text().splitlines()
            allowed.update(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))
    return ",".join(sorted(allowed))
