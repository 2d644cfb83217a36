"""Evidence of the process that runs a VM, from its hosts' figures (pure).

A VM (its ``stable``, a uuid) has one process on one host, and two while it migrates, each an entity of its own.
All evidence is that host's own: the CPU time of its process, and how long ago it started by the clock
that started with the host. Wall clocks of hosts are not used. It is in the smoothed record of the
tick, so a reader that starts now knows as much as one that has been running all along (docs/decisions/0021).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Container, Iterable, Set
from typing import NamedTuple

from acquisition.model import codes
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.names import Names
from acquisition.snapshot.values.states import CURRENT, DOWN
from acquisition.wire import table
from acquisition.wire.records.smoothed import SmoothedRecord
from acquisition.wire.table import FIRST_SEEN, Entity

VM = table.VM  #: kind of the entities in this module
GUEST_METRIC = "cpu_guest_ratio"  #: CPU time spent running the guest, in cores (docs/metrics.md)
CPU_METRIC = "cpu_ratio"
RUN_METRIC = "vcpu_run_ratio"  #: CPU time of its vCPU threads, also if the kernel accounts no guest time

#: CPU, in cores, below which a process without guest time stands still: two clock ticks of a second.
STANDSTILL = 0.02


class Meter(NamedTuple):
    """One figure of a process: ``now`` is its value in the requested tick, None if there
    is none or it is invalid; ``mean`` its moving average, up to the newest tick."""

    now: float | None = None
    mean: float | None = None

    @property
    def ever(self) -> bool:
        """Whether it is known to have been above 0, as far back as the average reaches.

        An average of zeros is exactly 0, and one that was ever above 0 stays so for about a hundred time constants.
        """
        return (self.now or 0.0) > 0.0 or (self.mean or 0.0) > 0.0


class VmEvidence(NamedTuple):
    """One process of a VM.

    ``born`` is when it started, by the clock (seconds since 1970) of the filter that read its host's
    monotonic clock; None if unknown. ``certain`` is False if only a table names it: it may have ended
    long ago. ``unheard``: nothing about it has arrived for longer than the limit. ``kvm``: the kernel
    runs its vCPUs; ``accounted``: its host is known to count guest time, from any of its VMs (nested under
    another hypervisor a kernel may count all of it as system time); ``incoming``: it was started to receive
    a migration and has not run yet; ``received_seconds`` is how long ago such a guest first ran here, None if never.
    Only ``first_seen`` is not the host's own statement: since when the filter has seen it report the VM without
    interruption (None: an older filter wrote its table). ``filtered`` is when the filter last read about it.
    """

    host_id: int
    host: str
    entity_id: int
    host_state: str  #: current, late, down
    age_seconds: float
    born: float | None
    certain: bool
    unheard: bool
    guest: Meter
    cpu: Meter
    kvm: bool
    accounted: bool
    incoming: bool
    first_seen: float | None = None
    filtered: float = 0.0
    name: str = ""
    run: Meter = Meter()
    received_seconds: float | None = None

    @property
    def works(self) -> bool:
        """Whether CPU time of the VM advances here, by guest time or, if that is not conclusive, by all of it."""
        if self.guest.ever:
            return self.guest.now is None or self.guest.now > 0.0
        return not self.waits_for_guest and (self.load.now or 0.0) >= STANDSTILL

    @property
    def load(self) -> Meter:
        """Substitute for guest time if that is not accounted: the CPU time of its vCPU threads, else all of it,
        including that for receiving a guest."""
        return self.cpu if self.run == Meter() else self.run

    @property
    def waits_for_guest(self) -> bool:
        """Whether, as far as is known, it still waits for the guest it was started to receive.

        Its host may be late: even then, CPU used by the process is not the load of the VM.
        """
        if self.guest.ever or not self.incoming:
            return False
        if self.run.now is not None:
            return self.run.now < STANDSTILL
        if not self.kvm:
            return False
        return self.accounted or (self.cpu.mean or 0.0) < STANDSTILL


def evidence_of(block: Block, row: int) -> VmEvidence:
    """Evidence from a row of a block."""
    entity = block.entities[row]
    record = block.record() or block.past
    at = _row_of(record, row, entity)
    return VmEvidence(
        block.host_id,
        block.host,
        entity.id,
        block.state,
        block.age_seconds,
        _born(block, entity),
        block.head is not None,
        block.unheard or block.state == DOWN,
        _meter(block, record, at, GUEST_METRIC),
        _meter(block, record, at, CPU_METRIC),
        entity.labels.get("accelerator") == "kvm",
        _accounted(block, record),
        bool(entity.labels.get("incoming")),
        _seconds(entity, FIRST_SEEN),
        block.filtered,
        entity.name,
        _meter(block, record, at, RUN_METRIC),
        _since(block, entity, "received"),
    )


def _born(block: Block, entity: Entity) -> float | None:
    """Start of the process: the label ``started`` is in seconds after its host's boot, as is ``monotonic``."""
    ago = _since(block, entity, "started")
    return None if block.head is None or ago is None else block.head.filtered - ago


def _since(block: Block, entity: Entity, label: str) -> float | None:
    """Seconds since the time in a label, which is in seconds after the boot of the host."""
    at = _seconds(entity, label)
    return None if block.head is None or at is None else block.head.monotonic - at


def _seconds(entity: Entity, label: str) -> float | None:
    """Value of a label that is a finite number of seconds."""
    try:
        seconds = float(entity.labels[label])
    except (KeyError, ValueError):
        return None
    return seconds if math.isfinite(seconds) else None


def _row_of(record: SmoothedRecord | None, row: int, entity: Entity) -> int | None:
    """Row of an entity in a record, most likely ``row``."""
    if record is None:
        return None
    if row < record.ids.size and int(record.ids[row]) == entity.id:
        return row
    found = (record.ids == entity.id).nonzero()[0]
    return int(found[0]) if found.size else None


def _meter(block: Block, record: SmoothedRecord | None, row: int | None, metric: str) -> Meter:
    column = _column(block, metric)
    if record is None or row is None or column is None:
        return Meter()
    now = None
    if block.state == CURRENT and _is_valid(record, row, column):
        now = _value(record, "last", row, column)
    return Meter(now, _value(record, "mean", row, column))


def _column(block: Block, metric: str) -> int | None:
    return next((i for i, each in enumerate(block.metrics) if each.name == metric), None)


def _accounted(block: Block, record: SmoothedRecord | None) -> bool:
    column = _column(block, GUEST_METRIC)
    means = record.planes.get("mean") if record is not None else None
    return means is not None and column is not None and column < means.shape[1] and bool((means[:, column] > 0.0).any())


def _is_valid(record: SmoothedRecord, row: int, column: int) -> bool:
    """As ``record.codes()[row, column]``, without making the matrix."""
    marked = record.exceptions
    if not marked.size:
        return True
    here = marked["code"][marked["index"] == row * next(iter(record.planes.values())).shape[1] + column]
    return not here.size or int(here[-1]) & codes.CODE_MASK == codes.VALID


def _value(record: SmoothedRecord, plane: str, row: int, column: int) -> float | None:
    values = record.planes.get(plane)
    value = math.nan if values is None or column >= values.shape[1] else float(values[row, column])
    return value if math.isfinite(value) else None


class EvidenceIndex:
    """VMs reported by more than one process: a cache over the rows of blocks, which rarely change.

    It decides nothing: an empty one finds the same.
    """

    def __init__(self) -> None:
        self._held: dict[Owner, tuple[bytes, Names, tuple[str, ...]]] = {}
        self._owners: dict[str, Owner | Counter[Owner]] = {}
        self._contested: set[str] = set()

    def take(self, blocks: Iterable[Block]) -> None:
        """Add the rows of blocks, replacing earlier ones of the same blocks."""
        for block in blocks:
            key = block.host_id, block.set_id
            held = self._held.get(key)
            if held is None or held[1] is not block.names or held[0] != block.raw_ids:
                self._drop(key)
                self._take(key, block)

    def forget(self, present: Set[Owner]) -> None:
        """Forget all blocks but these."""
        for key in self._held.keys() - present:
            self._drop(key)

    def contested(self, among: Container[Owner] | None = None) -> dict[str, list[Owner]]:
        """VMs reported by several processes, each with the owners of the blocks that contain them: of all blocks, or
        ``among`` some."""
        found = {}
        for vm in self._contested:
            owners = self._owners[vm]
            assert isinstance(owners, Counter)
            here = [key for key in sorted(owners) if among is None or key in among]
            if sum(owners[key] for key in here) > 1:
                found[vm] = here
        return found

    def _take(self, key: Owner, block: Block) -> None:
        if block.names is None:
            return
        vms = tuple(entity.stable for entity in block.entities if entity.kind == VM)
        self._held[key] = (block.raw_ids, block.names, vms)
        for vm in vms:
            owner = self._owners.get(vm)
            if owner is None:
                self._owners[vm] = key
            elif isinstance(owner, Counter):
                owner[key] += 1
            else:
                self._owners[vm] = Counter((owner, key))
                self._contested.add(vm)

    def _drop(self, key: Owner) -> None:
        for vm in self._held.pop(key, (b"", None, ()))[2]:
            owner = self._owners[vm]
            if not isinstance(owner, Counter):
                del self._owners[vm]
                continue
            owner[key] -= 1
            if not owner[key]:
                del owner[key]
            if owner.total() == 1:
                self._owners[vm] = next(iter(owner))
                self._contested.discard(vm)


def evidence_by_vm(vms: Container[str], blocks: Iterable[Block]) -> dict[str, list[VmEvidence]]:
    """Evidence of all processes of these VMs in these blocks: one pass, as a host may report any number of VMs."""
    found: dict[str, list[VmEvidence]] = {}
    for block in blocks:
        for row, entity in enumerate(block.entities):
            if entity.kind == VM and entity.stable in vms:
                found.setdefault(entity.stable, []).append(evidence_of(block, row))
    return found
