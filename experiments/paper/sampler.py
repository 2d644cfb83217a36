"""Sampler of process trees once a second: /proc and TCP accounting.

Utilization as in the paper (section 3.2), as ratios: CPU of one core, resident memory of the 2 GB of the paper's
machines, network of 1 Gbit/s in the busier direction. CPU is the process clock of the kernel (clock_getcpuclockid(3),
in nanoseconds, all threads), memory the resident pages of /proc/PID/statm, which count shared pages once for each
process. Network is the traffic of a tree's connections on an Ethernet: payload and segments of
tcp_info (``ss -tie``), each segment with 66 bytes of headers (Ethernet, IPv4, TCP with timestamps).
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from experiments.paper.figure import Row
from experiments.processes.needs import tool
from probes.loop.account import pss_bytes

MEMORY_BYTES = 2 << 30
LINK_BYTES = 125_000_000  #: 1 Gbit/s
UNITS = {
    "cpu": "ratio of one core",
    "memory": "ratio of 2 GiB, resident",
    "network": "ratio of 1 Gbit/s, busier direction",
}
PSS = "pss"
SAMPLER = "sampler"  #: the role of this process itself
NEEDS = tool("ss", "iproute2")

_PAGE = os.sysconf("SC_PAGE_SIZE")
_HEADERS = 66
_SOCKET = re.compile(r"socket:\[(\d+)\]")
_FIELDS = re.compile(r"\b(bytes_sent|bytes_received|segs_out|segs_in):(\d+)")
_INODE = re.compile(r"\bino:(\d+)")
Roles = Mapping[str, Sequence[int]]  #: role -> the roots of its process trees


class Reading(NamedTuple):
    """Totals of one tree: CPU in seconds, memory in bytes, bytes on the wire in each direction."""

    cpu: float
    memory: int
    sent: int
    received: int


def watch(system: str, roles: Roles, seconds: float, network_every: int = 1) -> list[Row]:
    """Block for ``seconds`` and sample all roles once a second; the network every ``network_every`` seconds, as reading
    thousands of connections takes a tenth of a second. Ended processes count nothing; ``systems.window`` detects
    them."""
    rows: list[Row] = []
    own, began = _own_cpu(), time.monotonic()
    trees = {role: _tree(roots) for role, roots in roles.items()}
    sockets = {role: _sockets(pids) for role, pids in trees.items()}
    before = {role: _read(pids) for role, pids in trees.items()}
    wire = _wire()
    cpu_at = wire_at = began
    for second in range(1, max(1, round(seconds)) + 1):
        time.sleep(max(0.0, began + second - time.monotonic()))
        trees = {role: _tree(roots) for role, roots in roles.items()}
        now = time.monotonic()
        after = {role: _read(pids) for role, pids in trees.items()}
        for role, (cpu, memory) in after.items():
            rows.append(_row(system, role, "cpu", second, (cpu - before[role][0]) / (now - cpu_at)))
            rows.append(_row(system, role, "memory", second, memory / MEMORY_BYTES))
        before, cpu_at = after, now
        if second % network_every == 0:
            now, latest = time.monotonic(), _wire()
            for role in roles:
                moved = _moved(wire, latest, sockets[role]) / (now - wire_at)
                rows.append(_row(system, role, "network", second, moved / LINK_BYTES))
            wire, wire_at = latest, now
            sockets = {role: _sockets(pids) for role, pids in trees.items()}
    lasted = time.monotonic() - began
    rows.append(_row(system, SAMPLER, "cpu", lasted, (_own_cpu() - own) / lasted))
    return rows


def pss(system: str, roles: Roles, at: float) -> list[Row]:
    """Current memory of all roles, with shared pages counted by share: reading it takes a millisecond per process."""
    return [Row(system, role, PSS, "bytes", at, sum(map(pss_bytes, _tree(roots)))) for role, roots in roles.items()]


def _row(system: str, role: str, quantity: str, at: float, value: float) -> Row:
    return Row(system, role, quantity, UNITS[quantity], round(at, 3), max(0.0, round(value, 8)))


def _tree(roots: Iterable[int]) -> list[int]:
    """The processes below these, including themselves."""
    found = list(roots)
    for pid in found:  # grows meanwhile
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_bytes().split())
    return found


def _read(pids: Iterable[int]) -> tuple[float, int]:
    """CPU seconds and resident bytes of some processes."""
    cpu, memory = 0.0, 0
    for pid in pids:
        with suppress(OSError):
            cpu += time.clock_gettime(~pid << 3 | 2)  # clock_getcpuclockid(3)
            memory += int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE
    return cpu, memory


def _sockets(pids: Iterable[int]) -> set[int]:
    """Inodes of the sockets of some processes."""
    return {inode for pid in pids for inode in _sockets_of(pid)}


def _sockets_of(pid: int) -> Iterator[int]:
    with suppress(OSError):
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                if found := _SOCKET.match(os.readlink(entry.path)):
                    yield int(found[1])


def _wire() -> dict[int, tuple[int, int]]:
    """Bytes sent and received by each TCP connection, headers included, by inode."""
    done = subprocess.run(["ss", "-tinHOe"], capture_output=True, text=True, check=False)
    found = {}
    for line in done.stdout.splitlines():
        if inode := _INODE.search(line):
            counts = {name: int(number) for name, number in _FIELDS.findall(line)}
            sent = counts.get("bytes_sent", 0) + _HEADERS * counts.get("segs_out", 0)
            received = counts.get("bytes_received", 0) + _HEADERS * counts.get("segs_in", 0)
            found[int(inode[1])] = sent, received
    return found


def _moved(before: dict[int, tuple[int, int]], after: dict[int, tuple[int, int]], sockets: set[int]) -> int:
    """Bytes of the busier direction between two readings, over connections in both."""
    both = [(before[inode], after[inode]) for inode in sockets if inode in before and inode in after]
    return max(sum(new[way] - old[way] for old, new in both) for way in (0, 1))


def _own_cpu() -> float:
    """CPU seconds of this process and of its waited-for children."""
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))
