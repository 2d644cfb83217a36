"""Huge pages of hosts, and VMs that use them (pure).

Ordinary memory and huge pages cannot replace each other. Pools of huge pages change in steps, so their newest
values count, not their averages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from filters.decisions import capacity
from filters.decisions.constraints import labels
from filters.decisions.picture import VALID, Host, Reading, Vm

_TOTAL, _AVAILABLE = "hugepages_total_bytes", "hugepages_available_bytes"
_SIZES = {"2 MiB": "hugepages_2m", "1 GiB": "hugepages_1g"}
_OTHERS = "other sizes"
_ROUNDING = 1e-6  #: of sums of float32
_FREE = (_AVAILABLE, *(f"{prefix}_free_bytes" for prefix in _SIZES.values()))


class Pool(NamedTuple):
    """Huge pages of one size: total bytes, and free unreserved bytes (None: unknown)."""

    total: float
    free: float | None


def total(host: Host) -> float | None:
    """Bytes of a host in huge pages of all sizes; None if MISSING."""
    return _newest(host.readings, _TOTAL)


def pools(host: Host) -> dict[str, Pool] | None:
    """The huge pages of a host by size, only sizes that it has; None if MISSING."""
    in_all, available = total(host), _newest(host.readings, _AVAILABLE)
    if not in_all:
        return None if in_all is None else {}
    found = {name: _pool(host.readings, prefix) for name, prefix in _SIZES.items()}
    named = sum(pool.total for pool in found.values())
    free = [pool.free for pool in found.values() if pool.free is not None]
    rest = max(0.0, available - sum(free)) if available is not None and len(free) == len(found) else None
    found[_OTHERS] = Pool(in_all - named if in_all - named > in_all * _ROUNDING else 0.0, rest)
    return {name: pool for name, pool in found.items() if pool.total}


def holds(vm: Vm) -> bool:
    """Whether the memory of a VM is in huge pages."""
    return labels.is_set(vm.labels, labels.HUGEPAGES)


def claimed(vm: Vm, host: Host) -> tuple[str, ...]:
    """The metrics of ``host`` that an arriving VM reduces by its memory: for huge pages those of all sizes, as it is
    unknown which it uses. Empty for a host without huge pages."""
    if not total(host):
        return ()
    return _FREE if holds(vm) else (capacity.MEMORY_AVAILABLE,)


def _pool(readings: Mapping[str, Reading], prefix: str) -> Pool:
    in_all, free, reserved = (_newest(readings, f"{prefix}_{each}_bytes") for each in ("total", "free", "reserved"))
    return Pool(in_all or 0.0, None if free is None or reserved is None else max(0.0, free - reserved))


def _newest(readings: Mapping[str, Reading], metric: str) -> float | None:
    """The newest value that is valid and fresh."""
    mean, reading = capacity.mean(readings, metric), readings.get(metric)
    return reading.last if reading is not None and mean is not None and reading.validity.startswith(VALID) else mean
