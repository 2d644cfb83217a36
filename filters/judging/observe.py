"""Making a picture of a snapshot.

VMs are the entities of kind ``vm`` (resource set ``vms``). With ``[decisions] entities = "processes"`` every
process that a host reports takes the place of a VM, for installations that watch their guests as
processes by command. It is never guessed: a host without VMs has nothing to move, and a web server
is not proposed for migration because nothing else was found.

While several hosts report a VM it appears once, where its load is (acquisition.snapshot.placement).
Readings and the VMs of a host are made when they are looked at, so that a list of hot hosts costs no
more than the hosts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

from acquisition.config.decisions import Decisions
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.block import Block
from acquisition.snapshot.placement import MIGRATING, Placement, waits_for_guest
from acquisition.snapshot.rows import finite
from acquisition.snapshot.states import CURRENT
from acquisition.snapshot.vm_evidence import VM, evidence_of
from acquisition.wire.table import Entity
from filters.decisions import capacity, ratios
from filters.decisions.picture import LATE, Host, Picture, Reading, Transit, Vm
from filters.judging.block_readings import BlockReadings, ColumnCache, Inputs, RowReadings
from filters.judging.labels import LabelTable

_PROCESSES = "processes"


def observe(snapshot: Snapshot, settings: Decisions, inputs: Inputs | None = None) -> Picture:
    """The picture of a snapshot; ``inputs`` completes readings with what the filter computed beside them.

    Its tick is that of the hosts' own figures: a set that is sampled at another interval counts other ticks.
    """
    observer = _Observer(snapshot, settings, inputs)
    by_host: dict[int, list[Block]] = {}
    for block in snapshot.blocks:
        by_host.setdefault(block.host_id, []).append(block)
    for block in snapshot.unread:  # a host that sends nothing of what was read is there all the same
        by_host.setdefault(block.host_id, [block])
    hosts = tuple(observer.host(blocks) for blocks in by_host.values())
    transits = tuple(each for placement in snapshot.placements.contested.values() for each in _transits(placement))
    return Picture(tick_of(snapshot), snapshot.now, hosts, snapshot.errors, transits, blind=snapshot.blind)


def tick_of(snapshot: Snapshot) -> int:
    """The newest tick of which a host's own figures are current; 0 where there is none."""
    ticks = [block.tick for block in snapshot.blocks if block.state == CURRENT and block.resource_set == HOST_SET]
    return max(ticks, default=0)


class _Observer:
    """What all hosts of one picture are made with."""

    def __init__(self, snapshot: Snapshot, settings: Decisions, inputs: Inputs | None) -> None:
        self.placements = snapshot.placements
        self.inputs = inputs
        self.processes = settings.entities == _PROCESSES
        self._columns = ColumnCache()
        self._hosts = LabelTable(settings.hosts)
        self._vms = LabelTable(settings.vms)

    def host(self, blocks: Sequence[Block]) -> Host:
        """One host with its blocks."""
        block = next((each for each in blocks if each.resource_set == HOST_SET), None)
        named = block or blocks[0]
        host_id = f"{named.host_id:016x}"
        readings: Mapping[str, Reading] = {}
        sent: Mapping[str, str] = {}
        if block is not None and block.raw_ids:
            readings = RowReadings(BlockReadings(block, self.inputs, self._columns), 0, ratios.HOST)
            sent = block.entities[0].labels
        return Host(
            host_id,
            named.host,
            block.state if block is not None else named.state if named.cause else LATE,
            finite(named.age_seconds),
            self._hosts.of(sent, named.host, host_id),
            readings,
            _Vms(self, blocks, readings),
            block.reason if block is not None else "it sends no figures of the host itself",
            named.cause,
        )

    def vms(self, blocks: Sequence[Block], host: Mapping[str, Reading]) -> Iterator[Vm]:
        """The VMs of a host."""
        derived = ratios.of_vm(host)
        for block in blocks:
            view = BlockReadings(block, self.inputs, self._columns)
            for row, entity in enumerate(block.entities):
                if self._counts(block, entity):
                    yield self._vm(view, row, entity, RowReadings(view, row, derived))

    def _counts(self, block: Block, entity: Entity) -> bool:
        """Whether a row is a VM that is in its place."""
        if entity.kind != VM:
            return self.processes and block.resource_set == _PROCESSES
        return not self.placements.is_shadow(block.host_id, entity.id)

    def _vm(self, view: BlockReadings, row: int, entity: Entity, readings: Mapping[str, Reading]) -> Vm:
        block = view.block
        arrives = "incoming" in entity.labels and waits_for_guest(evidence_of(block, row))
        return Vm(
            entity.stable,
            entity.name,
            f"{block.host_id:016x}",
            block.state,
            view.age,
            self._vms.of(entity.labels, entity.name, entity.stable),
            readings,
            arrives or self.placements.is_migrating(entity.stable),
            _observed(block, readings),
            entity.kind,
            f"{entity.id:016x}",
        )


class _Vms(Sequence[Vm]):
    """The VMs of a host, made when the first is looked at."""

    def __init__(self, observer: _Observer, blocks: Sequence[Block], host: Mapping[str, Reading]) -> None:
        self._make = (observer, blocks, host)
        self._made: tuple[Vm, ...] | None = None

    def all(self) -> tuple[Vm, ...]:
        """All of them."""
        if self._made is None:
            observer, blocks, host = self._make
            self._made = tuple(observer.vms(blocks, host))
        return self._made

    @overload
    def __getitem__(self, index: int) -> Vm: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Vm]: ...
    def __getitem__(self, index: int | slice) -> Vm | Sequence[Vm]:
        return self.all()[index]

    def __len__(self) -> int:
        return len(self.all())


def _observed(block: Block, readings: Mapping[str, Reading]) -> float | None:
    """Since when its windows fill, by the clock of its own host; None where the filter does not tell.

    That clock may have been set meanwhile: ticks say how long it is at most while its window fills, and at least after.
    """
    reading = readings.get(capacity.CPU_CORES)
    if reading is None or reading.inputs is None or not block.wall:
        return None
    inputs, window = reading.inputs, reading.inputs.window * reading.interval
    seconds = max(0.0, block.wall - inputs.since)
    return min(seconds, window) if inputs.warming else max(seconds, window)


def _transits(placement: Placement) -> Iterator[Transit]:
    """From the host that bears the load to each other that reports the VM."""
    if placement.state != MIGRATING:  # it has been started again after its host went down
        return
    origin = f"{placement.evidence[0].host_id:016x}"
    for other in {process.host_id for process in placement.evidence} - {placement.host_id}:
        yield Transit(placement.vm, f"{placement.host_id:016x}", f"{other:016x}", origin)
