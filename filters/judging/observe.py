"""Observation: builds a picture from a snapshot.

VMs are the entities of kind ``vm`` (resource set ``vms``). With ``[decisions] entities = "processes"`` every
process reported by a host, except the daemons of the monitor, takes the place of a VM, for installations that
watch their guests as processes by command. This is never guessed: a host without VMs has nothing to move, and a web
server is not proposed for migration because nothing else was found.

While several hosts report a VM, it appears once, where its load is (acquisition.snapshot.vms.placement).
Readings and VMs of a host are created on access, so the cost of a list of hot hosts depends only on the
hosts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar, overload

from acquisition.config.decisions import Decisions
from acquisition.link.happenings import VM_COPIED, VM_RENAMED, VM_TWICE
from acquisition.model import codes, vm_state
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block, finite
from acquisition.snapshot.values.states import CURRENT
from acquisition.snapshot.vms.evidence import VM, evidence_of
from acquisition.snapshot.vms.placement import INCOMING, MIGRATING, Placement, Placements
from acquisition.wire.records.planes import OWN
from acquisition.wire.table import DAEMON, Entity
from filters.decisions import capacity, ratios
from filters.decisions.constraints.labels import LOCAL
from filters.decisions.picture import LATE, Conflict, Host, Picture, Reading, Remark, Transit, Vm
from filters.judging.labels import LabelTable

#: Function that makes a reading from others of the same row; None if one of them is missing.
Derive = Callable[[Mapping[str, Reading]], Reading | None]


_Default = TypeVar("_Default")


class Inputs(Protocol):
    """Decision inputs computed by the filter, if present."""

    def complete(self, block: Block, row: int, metric: str, reading: Reading | None) -> Reading | None:
        """The reading with decision inputs and recent values; for a metric derived by the filter and not in
        any frame (``reading`` is None), the whole reading, or None."""
        ...


CODE_NAMES = tuple(map(codes.name_of, range(256)))  #: by code
Columns = Mapping[str, tuple[int, str]]  #: by metric name, with their units


class ColumnCache:
    """Cache of the columns of blocks: thousands of hosts send the same ones."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bool], Columns] = {}

    def of(self, block: Block) -> Columns:
        """The columns of a block by name."""
        key = (block.schema, block.names is None)
        found = self._known.get(key)
        if found is None:
            found = {metric.name: (column, metric.unit) for column, metric in enumerate(block.metrics)}
            self._known[key] = found
        return found


class _Planes(NamedTuple):
    """The values of a block by row and column, decoded once; access to lists is much faster than to arrays. Each rule
    limits the age of the last valid value, so averages are the stored ones."""

    own: list[list[list[float]]]  #: by figure, in the order of acquisition.wire.records.planes.OWN
    extra: dict[str, list[list[float]]]  #: the figures of further kernels
    codes: list[list[int]]
    stale: list[list[float]]


class BlockReadings:
    """Data of a block shared by the readings of its rows."""

    def __init__(self, block: Block, inputs: Inputs | None, columns: ColumnCache) -> None:
        self.block = block
        self.inputs = inputs
        self.columns = columns.of(block)
        self.age = finite(block.age_seconds)
        self._planes: _Planes | None = None

    def planes(self) -> _Planes:
        """The values."""
        if self._planes is None:
            block = self.block
            own = [plane.figures(block.plane(plane.name)).tolist() for plane in OWN]
            extra = {plane.figure: plane.figures(block.plane(plane.name)).tolist() for plane in block.extra_planes}
            self._planes = _Planes(own, extra, block.codes().tolist(), block.stale_seconds().tolist())
        return self._planes

    def reading(self, row: int, metric: str) -> Reading | None:
        """One metric of one row from the smoothed state."""
        found = self.columns.get(metric)
        if found is None:
            return None
        column, unit = found
        planes = self.planes()
        mean, deviation, trend, last = (finite(plane[row][column]) for plane in planes.own)
        return Reading(
            metric, mean, deviation, trend, last, CODE_NAMES[planes.codes[row][column]], self.age,
            finite(planes.stale[row][column]), unit=unit, interval=self.block.interval or 1.0,
            extra={name: finite(plane[row][column]) for name, plane in planes.extra.items()},
        )  # fmt: skip


class RowReadings(Mapping[str, Reading]):
    """Readings of a row by metric, from the tables and derived.

    ``derived`` makes readings that are neither in the smoothed state nor in the filter's inputs.
    """

    def __init__(self, view: BlockReadings, row: int, derived: Mapping[str, Derive]) -> None:
        self._view = view
        self._row = row
        self._derived = derived
        self._made: dict[str, Reading | None] = {}

    def __getitem__(self, metric: str) -> Reading:
        found = self.get(metric)
        if found is None:
            raise KeyError(metric)
        return found

    @overload
    def get(self, metric: str, /) -> Reading | None: ...
    @overload
    def get(self, metric: str, /, default: Reading | _Default) -> Reading | _Default: ...
    def get(self, metric: str, /, default: Reading | _Default | None = None) -> Reading | _Default | None:
        """The reading, without the internal exception of Mapping.get for each missing one."""
        found = self._made[metric] if metric in self._made else self._make(metric)
        return default if found is None else found

    def _make(self, metric: str) -> Reading | None:
        self._made[metric] = None  # a reading derived from itself is missing
        view = self._view
        found = view.reading(self._row, metric)
        if view.inputs is not None:
            found = view.inputs.complete(view.block, self._row, metric, found)
        if found is None and metric in self._derived:
            found = self._derived[metric](self)
        self._made[metric] = found
        return found

    def __iter__(self) -> Iterator[str]:
        known = (*self._view.columns, *self._derived)
        return (metric for metric in dict.fromkeys(known) if self.get(metric) is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_PROCESSES = "processes"


def observe(snapshot: Snapshot, settings: Decisions, inputs: Inputs | None = None) -> Picture:
    """The picture of a snapshot; ``inputs`` completes readings with the filter's decision inputs.

    Its tick is that of the hosts' own figures: a set sampled at another interval counts other ticks.
    """
    observer = _Observer(snapshot, settings, inputs)
    by_host: dict[int, list[Block]] = {}
    for block in snapshot.blocks:
        by_host.setdefault(block.host_id, []).append(block)
    for block in snapshot.unread:  # a host that sends nothing of what was read is included all the same
        by_host.setdefault(block.host_id, [block])
    hosts = tuple(observer.host(blocks) for blocks in by_host.values())
    contested = snapshot.placements.contested.values()
    transits = tuple(each for placement in contested for each in _transits(placement))
    conflicts = tuple(each for placement in contested for each in _conflicts(placement))
    remarks = tuple(_remarks(snapshot.placements))
    return Picture(
        tick_of(snapshot), snapshot.now, hosts, snapshot.errors, transits, snapshot.blind, conflicts, remarks
    )


def tick_of(snapshot: Snapshot) -> int:
    """The newest tick with current own figures of a host; 0 if there is none."""
    ticks = [block.tick for block in snapshot.blocks if block.state == CURRENT and block.resource_set == HOST_SET]
    return max(ticks, default=0)


class _Observer:
    """Builder of all hosts of one picture."""

    def __init__(self, snapshot: Snapshot, settings: Decisions, inputs: Inputs | None) -> None:
        self.placements = snapshot.placements
        self.inputs = inputs
        self.processes = settings.entities == _PROCESSES
        self._columns = ColumnCache()
        self._hosts = LabelTable(settings.hosts) if settings.hosts else None
        self._vms = LabelTable(settings.vms) if settings.vms else None

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
            self._hosts.of(sent, named.host, host_id) if self._hosts else sent,
            readings,
            _Vms(self, blocks, readings),
            block.reason if block is not None else "it sends no metrics of the host itself",
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
        """Whether a row is a VM at its place."""
        if entity.kind != VM:
            return self.processes and block.resource_set == _PROCESSES and DAEMON not in entity.labels
        return not self.placements.is_shadow(block.host_id, entity.id)

    def _vm(self, view: BlockReadings, row: int, entity: Entity, readings: Mapping[str, Reading]) -> Vm:
        block, places = view.block, self.placements
        vm, labels = places.id_of(block.host_id, entity), entity.labels
        if (block.host_id, entity.id) in places.copies:  # no other host has it under this id
            labels = {**labels, LOCAL: "yes"}
        arrives = "incoming" in entity.labels and evidence_of(block, row).waits_for_guest
        state = readings.get(vm_state.METRIC) if block.state == CURRENT else None
        stopped = state is not None and vm_state.state_of(state.last) == vm_state.STOPPED
        return Vm(
            vm,
            entity.name,
            f"{block.host_id:016x}",
            vm_state.STOPPED if stopped else block.state,
            view.age,
            self._vms.of(labels, entity.name, vm) if self._vms else labels,
            readings,
            arrives or places.is_migrating(vm),
            _observed(block, readings),
            entity.kind,
            f"{entity.id:016x}",
        )


class _Vms(Sequence[Vm]):
    """The VMs of a host, created on first access."""

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
    """Seconds since its windows began to fill, by the clock of its own host; None if unknown.

    That clock may have been set since: ticks give a maximum while the window fills, and a minimum afterwards.
    """
    reading = readings.get(capacity.CPU_CORES)
    if reading is None or reading.inputs is None or not block.wall:
        return None
    inputs, window = reading.inputs, reading.inputs.window * reading.interval
    seconds = max(0.0, block.wall - inputs.since)
    return min(seconds, window) if inputs.warming else max(seconds, window)


def _transits(placement: Placement) -> Iterator[Transit]:
    """Transits from the host that carries the load to each other host that reports the VM."""
    if placement.state not in (MIGRATING, INCOMING):  # it was restarted after its host went down
        return
    origin = f"{placement.evidence[0].host_id:016x}"
    for other in {process.host_id for process in placement.evidence} - {placement.host_id}:
        yield Transit(
            placement.vm, f"{placement.host_id:016x}", f"{other:016x}", origin, placement.state == MIGRATING
        )  # fmt: skip


def _conflicts(placement: Placement) -> Iterator[Conflict]:
    """One conflict for each host that claims a VM of another."""
    for claimant in {process.host_id for process in placement.claimants}:
        yield Conflict(placement.vm, f"{placement.host_id:016x}", f"{claimant:016x}")


def _remarks(places: Placements) -> Iterator[Remark]:
    """Remarks on VMs that run twice, change their name in a migration, or share their uuid with another."""
    for vm, placement in places.contested.items():
        if placement.running_hosts:
            name, hosts = placement.evidence[0].name, " and ".join(placement.running_hosts)
            text = (
                f"{name} RUNS TWICE: its vCPUs run on {hosts} at once, which may corrupt its disks. Stop one "
                "of the two now; see docs/moves.md for how to choose"
            )
            yield Remark(vm, VM_TWICE, text)
    for vm, placement in places.contested.items():
        first, last = placement.evidence[0], placement.evidence[-1]
        if first.name != last.name:
            text = f"{first.name} of {first.host} is called {last.name} on {last.host}, to which it migrates: one VM"
            yield Remark(vm, VM_RENAMED, text)
    for vm in sorted(set(places.copies.values())):
        text = "another VM with a different name has its uuid; both count, and this one is not moved: assign a new uuid"
        yield Remark(vm, VM_COPIED, text)
