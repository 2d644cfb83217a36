"""VM documents: usage, suffering, and noisy neighbours on a host."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from msgspec import Struct

from acquisition.model import codes
from acquisition.model.metric import HOST_SET
from acquisition.model.vm_state import UNKNOWN, state_of
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.vms.evidence import VM
from acquisition.wire.records.planes import LAST, MEAN
from filters.documents.chosen import Chosen, Page, by_host
from filters.documents.entities import Labels
from filters.documents.figures import shortened
from filters.documents.hosts import state_of as state_of_host
from filters.text.owners import owner_id
from filters.text.quantities import digits

#: The figures of a VM: moving averages.
RUN, SUFFERING = "vcpu_run_ratio", "vcpu_suffering_ratio"
FIGURES = ("vcpu_count", "cpu_ratio", RUN, "vcpu_delay_ratio", "vcpu_throttled_ratio", SUFFERING)
_STATE = "state"
#: Figures of VMs reported by the host itself.
_OF_HOST = ("cpu_count", "vms_suffering_ratio", "vms_worst_suffering_ratio")


class VmRow(Struct, frozen=True):
    """One process of a VM. ``owner_id`` is what its owner calls it, ``stable`` survives a migration. Times are in
    cores: ``vcpu_suffering_ratio`` is what others on the host took from it. A figure that is null is no 0: ``validity``
    has the code of each metric whose newest sample is not valid. The figures of a ``shadow`` are not its load, which is
    on another host while it migrates; ``state`` is that of the newest sample."""

    id: str
    name: str
    owner_id: str
    stable: str
    host: str
    host_id: str
    state: str
    vcpu_count: float | None
    cpu_ratio: float | None
    vcpu_run_ratio: float | None
    vcpu_delay_ratio: float | None
    vcpu_throttled_ratio: float | None
    vcpu_suffering_ratio: float | None
    validity: dict[str, str]
    age_seconds: float | None
    shadow: bool
    migrating: bool
    labels: dict[str, Any]


class VmsDocument(Struct, frozen=True):
    """The VMs that were asked for, by host and name. ``next``: as in ``/v1/hosts``."""

    tick: int
    now: float
    reading: str
    errors: list[str]
    blind: str
    next: str | None
    vms: list[VmRow]


class NeighboursDocument(Struct, frozen=True):
    """The VMs of one host, those first that run most, and those first that suffer most; where that is not
    known they come last. ``cores`` and the sums are the host's own figures."""

    tick: int
    now: float
    reading: str
    errors: list[str]
    blind: str
    host: str
    id: str
    state: str
    reason: str
    cores: float | None
    vms_suffering_ratio: float | None
    vms_worst_suffering_ratio: float | None
    by_run_time: list[VmRow]
    by_suffering: list[VmRow]


def vms_document(snapshot: Snapshot, tick: int, selection: Chosen, page: Page, labels: Labels) -> VmsDocument:
    """The VMs of the selection on the hosts of a page."""
    taken = (
        blocks for blocks in by_host(snapshot.blocks) if selection.takes_host(blocks[0].host, blocks[0].host_id)
    )  # fmt: skip
    hosts, following = page.cut(taken, lambda blocks: blocks[0].host)
    rows = [row for blocks in hosts for row in sorted(_rows(snapshot, blocks, selection, labels), key=_name)]
    return VmsDocument(*_head(snapshot, tick), following, rows)


def neighbours_document(
    snapshot: Snapshot, tick: int, key: str, labels: Labels, most: int | None = None
) -> NeighboursDocument:
    """One host by name or hexadecimal id, at most ``most`` VMs in each list. Raises KeyError for an unknown host."""
    blocks = next(
        (each for each in by_host(snapshot.blocks) if key in (each[0].host, f"{each[0].host_id:016x}")), None
    )  # fmt: skip
    if blocks is None:
        raise KeyError(key)
    first = blocks[0]
    reason = next((block.reason for block in blocks if block.reason), "")
    own = next((_View(block) for block in blocks if block.resource_set == HOST_SET and block.shape[0]), None)
    cores, suffering, worst = (None if own is None else own.mean(0, metric) for metric in _OF_HOST)
    rows = list(_rows(snapshot, blocks, Chosen(), labels))
    return NeighboursDocument(
        *_head(snapshot, tick), first.host, f"{first.host_id:016x}", state_of_host(blocks), reason, cores, suffering,
        worst, _greatest(rows, RUN)[:most], _greatest(rows, SUFFERING)[:most],
    )  # fmt: skip


def _head(snapshot: Snapshot, tick: int) -> tuple[int, float, str, list[str], str]:
    return tick, round(snapshot.now, 6), snapshot.reading, list(snapshot.errors), snapshot.blind


def _name(row: VmRow) -> str:
    return row.name


def _greatest(rows: Sequence[VmRow], metric: str) -> list[VmRow]:
    """VMs sorted by value, the greatest first, missing values last."""
    values = {row.id: getattr(row, metric) for row in rows}
    return sorted(rows, key=lambda row: (math.inf if values[row.id] is None else -values[row.id], row.name))


def _rows(snapshot: Snapshot, blocks: Sequence[Block], selection: Chosen, labels: Labels) -> Iterator[VmRow]:
    for block in blocks:
        wanted = [row for row, each in enumerate(block.entities) if each.kind == VM and selection.takes_entity(each)]
        if not wanted:
            continue
        view = _View(block)
        for row in wanted:
            entity = block.entities[row]
            vm = snapshot.placements.id_of(block.host_id, entity)
            means: dict[str, Any] = {metric: view.mean(row, metric) for metric in FIGURES}
            yield VmRow(
                id=f"{entity.id:016x}", name=entity.name, stable=vm,
                owner_id=owner_id(entity.name, vm, entity.labels), host=block.host,
                host_id=f"{block.host_id:016x}", state=view.state(row), validity=view.validity(row),
                age_seconds=shortened(block.age_seconds), labels=dict(labels(entity)),
                shadow=snapshot.placements.is_shadow(block.host_id, entity.id),
                migrating=snapshot.placements.is_migrating(vm), **means,
            )  # fmt: skip


class _View:
    """The values of a block, decoded once."""

    def __init__(self, block: Block) -> None:
        self._columns = {metric.name: column for column, metric in enumerate(block.metrics)}
        self._means, self._last, self._codes = block.figure(MEAN), block.figure(LAST), block.codes()

    def mean(self, row: int, metric: str) -> float | None:
        """Moving average of a metric."""
        column = self._columns.get(metric)
        return None if column is None else digits(float(self._means[row, column]))

    def validity(self, row: int) -> dict[str, str]:
        """Codes of the metrics that are not valid."""
        found = {metric: self._code(row, metric) for metric in (*FIGURES, _STATE)}
        return {metric: codes.name_of(code) for metric, code in found.items() if code != codes.VALID}

    def state(self, row: int) -> str:
        """State at the newest tick."""
        valid = self._code(row, _STATE) == codes.VALID
        return state_of(float(self._last[row, self._columns[_STATE]])) if valid else UNKNOWN

    def _code(self, row: int, metric: str) -> int:
        column = self._columns.get(metric)
        return codes.MISSING if column is None else int(self._codes[row, column])
