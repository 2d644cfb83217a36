"""NUMA nodes from /sys/devices/system/node and /proc/stat.

See numaif.h and Documentation/ABI/stable/sysfs-devices-node.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from acquisition.model.codes import MISSING, NAN, VALID
from probes.figures.host_figures import core_ticks
from probes.figures.row import Row, gauge
from probes.sampling.procfs import OpenFile, number_after, read_once, whole
from probes.sources import Request
from probes.sources.parts import CpuShares, PartSource

_KIB = 1024
_NODE = re.compile(r"node(\d{1,5})", re.ASCII)
_PAGES = re.compile(r"hugepages-(\d{1,12})kB", re.ASCII)
_HUGE = {"hugepages_total_bytes": "nr_hugepages", "hugepages_free_bytes": "free_hugepages"}


def create(request: Request) -> NodeSource:
    """See ``probes.sources``."""
    return NodeSource(request)


def cpus_of(text: bytes) -> list[int]:
    """Numbers in a list such as ``0-3,8`` (cpuset(7)); invalid ones are left out."""
    found: list[int] = []
    for part in text.strip().split(b","):
        low, dash, high = part.partition(b"-")
        ends = whole(low), whole(high if dash else low)
        if ends[0] is not None and ends[1] is not None:
            found.extend(range(ends[0], min(ends[1], ends[0] + _KIB * _KIB) + 1))
    return found


class NodeSource(PartSource):
    """All nodes of the machine; a machine without the directory has none."""

    kind = "numa_node"

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._stat = OpenFile(f"{request.facts.proc}/stat")
        self._shares = CpuShares(request.facts.hertz)
        self._base = f"{request.facts.sys}/devices/system/node"

    def rows(self, seconds: float) -> dict[str, Row]:
        """See ``PartSource``."""
        ticks = core_ticks(self._stat.read())
        nodes = sorted((name for name in _listed(self._base) if _NODE.fullmatch(name)), key=lambda name: int(name[4:]))
        groups: dict[str, list[Sequence[int]]] = {
            name: [ticks[cpu] for cpu in cpus_of(_content(f"{self._base}/{name}/cpulist")) if cpu in ticks]
            for name in nodes
        }
        rows = self._shares.rows(groups, seconds)
        for name, row in rows.items():
            row.update(_memory(_content(f"{self._base}/{name}/meminfo")))
            row.update(_hugepages(f"{self._base}/{name}/hugepages"))
        return rows

    def close(self) -> None:
        """See ``Source``."""
        self._stat.close()


def _memory(text: bytes) -> Row:
    """Lines are ``Node 0 MemTotal:  1000 kB``."""
    cached, slab = number_after(text, b" FilePages:"), number_after(text, b" SReclaimable:")
    return {
        "memory_total_bytes": gauge(number_after(text, b" MemTotal:"), _KIB),
        "memory_free_bytes": gauge(number_after(text, b" MemFree:"), _KIB),
        "memory_cache_bytes": gauge(None if cached is None else cached + (slab or 0), _KIB),
    }


def _hugepages(base: str) -> Row:
    sizes = {name: int(found[1]) * _KIB for name in _listed(base) if (found := _PAGES.fullmatch(name))}
    row: Row = {}
    for metric, file in _HUGE.items():
        counts = [(whole(_content(f"{base}/{name}/{file}").strip()), size) for name, size in sizes.items()]
        known = [count * size for count, size in counts if count is not None]
        row[metric] = (float(sum(known)), VALID) if counts and len(known) == len(counts) else (NAN, MISSING)
    return row


def _listed(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []


def _content(path: str) -> bytes:
    try:
        return read_once(path)
    except OSError:
        return b""
