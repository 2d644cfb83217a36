"""Huge pages of the host: memory available only to guests that request it.

See Documentation/admin-guide/mm/hugetlbpage.rst.

A pool is taken from ordinary memory when it is made: MemAvailable excludes all of its pages, free ones too. Figures
of 2 MiB and 1 GiB have their own columns; other sizes count in the columns of all sizes. As in the kernel, total
includes surplus pages, and free pages include reserved ones. Pages that may be added on demand
(nr_overcommit_hugepages) still belong to ordinary memory and are not counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import NamedTuple

from acquisition.model.codes import MISSING, NAN, UNREADABLE, VALID
from probes.figures.row import Row
from probes.sampling.host_facts import HostFacts
from probes.sampling.metric_kinds import bytes_gauge
from probes.sampling.procfs import OpenFile, number_after, whole

_KIB = 1024
#: Sizes with their own columns: prefix of their names -> bytes.
SIZES = {"hugepages_2m": 2 << 20, "hugepages_1g": 1 << 30}
_COLUMNS = ("total", "free", "reserved")
#: The files of each size, and the lines of /proc/meminfo about the default size, in the order of _COLUMNS.
_FILES = ("nr_hugepages", "free_hugepages", "resv_hugepages")
_LINES = (b"\nHugePages_Total:", b"\nHugePages_Free:", b"\nHugePages_Rsvd:")
_DIRECTORY = re.compile(r"hugepages-(\d{1,12})kB", re.ASCII)

METRICS = (
    bytes_gauge("hugepages_total_bytes", "memory in huge pages of all sizes (Hugetlb)"),
    bytes_gauge("hugepages_available_bytes", "unreserved free huge pages of all sizes, not part of MemAvailable"),
    bytes_gauge("hugepages_2m_total_bytes", "memory in huge pages of 2 MiB (nr_hugepages)"),
    bytes_gauge("hugepages_2m_free_bytes", "free huge pages of 2 MiB, reserved ones included (free_hugepages)"),
    bytes_gauge("hugepages_2m_reserved_bytes", "huge pages of 2 MiB reserved and not yet in use (resv_hugepages)"),
    bytes_gauge("hugepages_1g_total_bytes", "memory in huge pages of 1 GiB (nr_hugepages)"),
    bytes_gauge("hugepages_1g_free_bytes", "free huge pages of 1 GiB, reserved ones included (free_hugepages)"),
    bytes_gauge("hugepages_1g_reserved_bytes", "huge pages of 1 GiB reserved and not yet in use (resv_hugepages)"),
)

Cell = tuple[float, int]  #: value and validity code


class Pool(NamedTuple):
    """Huge pages of one size: bytes with their codes. ``free`` includes ``reserved``."""

    total: Cell
    free: Cell
    reserved: Cell


def create(facts: HostFacts) -> HugepageFigures:
    """See ``probes.metrics.HOST_FIGURES``."""
    return HugepageFigures(facts.proc, facts.sys)


class HugepageFigures:
    """The pools of huge pages, from /sys/kernel/mm/hugepages, else /proc/meminfo.

    All are 0 if ``Hugetlb:`` of /proc/meminfo (Linux 4.16) is 0: no other file is read then. All are MISSING if
    the kernel reports nothing about huge pages.
    """

    metrics = tuple(metric.name for metric in METRICS)
    files: tuple[OpenFile, ...] = ()  #: the step in C reads /proc/meminfo with the group of memory figures

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._meminfo = OpenFile(f"{proc}/meminfo")
        self._base = f"{sys}/kernel/mm/hugepages"
        self._pools: dict[int, tuple[OpenFile, ...]] = {}

    def read(self, seconds: float, row: Row) -> None:  # noqa: ARG002 - gauges need no interval
        """See ``Figures``."""
        text = b"\n" + self._meminfo.read_if_there()
        in_all = number_after(text, b"\nHugetlb:")
        if in_all == 0:
            row.update((name, (0.0, VALID)) for name in self.metrics)
            return
        self._pools = self._pools or self._find()
        if self._pools:
            pools = {
                size: Pool(*(_pages(file.read_if_there(), size) for file in files))
                for size, files in self._pools.items()
            }
            row.update(figures(pools, 0.0))
        elif pools := default_pool(text):
            own = sum(pool.total[0] for pool in pools.values())
            row.update(figures(pools, None if in_all is None else max(0.0, in_all * _KIB - own)))

    def _find(self) -> dict[int, tuple[OpenFile, ...]]:
        """Files of each page size in bytes: the kernel lists all sizes it supports."""
        try:
            names = sorted(os.listdir(self._base))
        except OSError:
            return {}
        sizes = {name: int(found[1]) * _KIB for name in names if (found := _DIRECTORY.fullmatch(name))}
        return {size: tuple(OpenFile(f"{self._base}/{name}/{file}") for file in _FILES) for name, size in sizes.items()}

    def close(self) -> None:
        """See ``Figures``."""
        for file in (self._meminfo, *(file for files in self._pools.values() for file in files)):
            file.close()


def default_pool(meminfo: bytes) -> dict[int, Pool]:
    """Pool of the default page size by its size in bytes, from /proc/meminfo after a line feed; empty if that
    has none."""
    size = number_after(meminfo, b"\nHugepagesize:")
    counts = [number_after(meminfo, line) for line in _LINES]
    known = [(float(count * size * _KIB), VALID) for count in counts if count is not None and size]
    return {size * _KIB: Pool(*known)} if size and len(known) == len(_LINES) else {}


def figures(pools: Mapping[int, Pool], others: float | None) -> Row:
    """Figures of METRICS. ``others`` are the bytes in pages of other sizes that are known only as a sum; None:
    it is unknown whether there are any."""
    unknown = Pool(*[(0.0, VALID) if others == 0 else (NAN, MISSING)] * len(_COLUMNS))
    row = {
        f"{name}_{column}_bytes": cell
        for name, size in SIZES.items()
        for column, cell in zip(_COLUMNS, pools.get(size, unknown), strict=True)
    }
    row["hugepages_total_bytes"] = _sum([pool.total for pool in pools.values()] + [(others or 0.0, VALID)])
    row["hugepages_available_bytes"] = (NAN, MISSING) if others else _sum([_available(each) for each in pools.values()])
    return row


def _available(pool: Pool) -> Cell:
    """Free pages beyond the reserved ones; at least 0, since the three files of a pool are not read at one moment."""
    value, code = _sum([pool.free, (-pool.reserved[0], pool.reserved[1])])
    return max(0.0, value) if code == VALID else NAN, code


def _sum(cells: list[Cell]) -> Cell:
    """Sum of values that are all valid; else the code of the first invalid one."""
    code = next((code for _, code in cells if code != VALID), VALID)
    return (sum(value for value, _ in cells), code) if code == VALID else (NAN, code)


def _pages(text: bytes, size: int) -> Cell:
    """Bytes in a number of pages."""
    count = whole(text.strip())
    if count is None:
        return NAN, UNREADABLE if text else MISSING
    return float(count * size), VALID
