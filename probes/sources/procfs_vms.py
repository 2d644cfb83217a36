"""VM source from /proc: qemu processes and the guests in their options.

Figures of the process as in ``procfs_processes`` (the guest's own CPU time is ``cpu_guest_ratio``), its present vCPUs
and their times (``guest_vcpus``), its assigned memory, its traffic (``guest_traffic``), and its
state; MISSING if unknown. CPU time of a process that waits for its guest is that of receiving, not the guest's load:
FIRST until the tick after the guest first ran.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from acquisition.model.codes import FIRST, MISSING, NAN, VALID
from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.model.vm_state import INCOMING, RUNNING, STOPPED, UNKNOWN, number_of
from acquisition.wire.table import Entity
from probes.figures import vms_suffering
from probes.figures.process_row import ALL_CPU, GUEST, SYSTEM, USER, WIDTH
from probes.metrics import PROCESSES, VMS
from probes.processes.discovery import Discovery
from probes.processes.endings import Endings
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import Polled, Request
from probes.sources.procfs_processes import Watched
from probes.vms.guest_hugepages import GuestHugepages
from probes.vms.guest_process import Found, Process, VcpuFinder
from probes.vms.guest_traffic import GuestTraffic
from probes.vms.guest_vcpus import UNKNOWN as UNKNOWN_TIMES
from probes.vms.guest_vcpus import Cell, Times, VcpuTimes
from probes.vms.qemu import Guest
from probes.vms.vm_identity import Identity, identities

_REFRESH = 60  #: readings after which the vCPUs of a guest are counted again, for some guests at each
HUGEPAGES = "hugepages"
#: Labels with the reason why the traffic of a VM, or some figure of its vCPUs, is unknown.
MISSING_NETWORK, MISSING_VCPUS = "missing_network", "missing_vcpus"
#: Columns of a VM: those of its process, and its own in the order of ``VmSource._own``.
_COLUMNS = {
    metric.name: column
    for column, metric in enumerate(
        (*PROCESSES.metrics, *(each for each in VMS.metrics if each not in PROCESSES.metrics))
    )
}
_TRAFFIC = frozenset(column for name, column in _COLUMNS.items() if name.startswith("network_"))
_VCPUS = frozenset(column for name, column in _COLUMNS.items() if name.startswith("vcpu_")) | {_COLUMNS["state"]}
_STOPPED = frozenset(b"Tt")  #: letters of proc(5)


def create(request: Request) -> VmSource:
    """See ``probes.sources``."""
    return VmSource(request.resource_set, request.facts, request.discovery, request.interval)


def vm_entity(facts: HostFacts, found: Found, identity: Identity, labels: Mapping[str, str]) -> Entity:
    """Row of one VM: its epoch is the process that runs it. ``labels`` are in addition to those of its identity."""
    epoch = f"{facts.boot_id}:{found.pid}:{found.start}"
    name = (found.guest.name if found.guest else "") or found.command
    return Entity(
        entity_id("vm", identity.stable, epoch), "vm", identity.stable, epoch, name, {**identity.labels, **labels}
    )


class VmSource(Polled):
    """All qemu processes of the host."""

    name = "procfs"

    def __init__(
        self, resource_set: ResourceSet, facts: HostFacts, discovery: Discovery, interval: float = 1.0
    ) -> None:
        self._columns = tuple(_COLUMNS[metric.name] for metric in resource_set.metrics)
        self._set = resource_set
        self._facts = facts
        self._discovery = discovery
        self._watched = Watched(facts, discovery, tuple(c for c in self._columns if c < WIDTH))
        self._hugepages = GuestHugepages(facts, self._watched.found)
        self._endings = Endings()
        self._live = facts.proc == "/proc"  # if processes come and go between two readings
        self._traffic = GuestTraffic(facts.proc)
        self._with_traffic = not _TRAFFIC.isdisjoint(self._columns)
        self._vcpus = VcpuFinder(facts.proc)
        self._times: dict[Process, VcpuTimes] = {}
        self._missing: dict[Process, str] = {}  # why some times of its vCPUs are missing
        self._waited: set[int] = set()  # those seen while they waited for the guest they were started to receive
        self._receiving: tuple[set[Process], set[Process]] = set(), set()  # at this tick, and at the previous one
        self._arrived: dict[int, float] = {}  # when it first ran, in seconds after the boot
        self._with_vcpus = not _VCPUS.isdisjoint(self._columns)
        self._interval = interval
        self._stables: dict[Process, str] = {}
        self._turn = 0
        self._entities: list[Entity] = []
        self._generation = -1
        self._never = True  # no guest has been watched yet
        self._last = 0.0

    def glance(self) -> bool:
        """See ``Source``; ended guests are forgotten."""
        for pid in self._endings.ended():
            self._discovery.forget(pid)
        if self._live:
            self._discovery.glance()
        return self._watched.differ(self._discovery.guests)

    def sample(self, wall: float, monotonic: float) -> Reading | None:
        """See ``Source``; None as long as there never was a VM."""
        generation, changed = self._discovery.refresh(monotonic), False
        if self.glance() or generation != self._generation:
            self._generation = self._discovery.generation
            changed = self._watched.follow(self._discovery.guests)
        seconds = monotonic - self._last if self._last else 0.0
        self._last = monotonic
        if not changed and not self._entities and not len(self._watched):
            self._suffer([])
            if self._never:
                return None
            return self._reading(array("d"), bytearray(), wall, monotonic, seconds)
        changed |= self._watched.read(seconds)
        changed |= self._with_traffic and self._traffic.read(self._watched.found(), seconds)
        if self._hugepages.look(changed, monotonic) or changed:
            self._forget()
        self._never = False
        return self._reading(*self._rows(seconds, monotonic), wall, monotonic, seconds)

    def _reading(
        self, values: array[float], codes: bytearray, wall: float, monotonic: float, seconds: float
    ) -> Reading:
        facts = self._facts
        return Reading(
            self._set, self._entities, values, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def _forget(self) -> None:
        watched = self._watched.found()
        if self._live:
            self._endings.follow(watched)
        self._vcpus.keep(set(map(process_of, watched)))
        for process in self._times.keys() - set(map(process_of, watched)):
            self._times.pop(process).close()
        self._name()

    def _name(self) -> None:
        """Make the rows' identities; a guest that has run is no longer waited for."""
        watched = self._watched.found()
        known = identities(self._facts, watched, self._arrived, self._stables)
        self._stables = {process_of(found): known[found.pid].stable for found in watched}
        self._entities = [vm_entity(self._facts, found, known[found.pid], self._labels(found)) for found in watched]

    def _labels(self, found: Found) -> dict[str, str]:
        """``hugepages``: its memory is in huge pages, required at a destination; and missing figures with reasons."""
        labels = {HUGEPAGES: "yes"} if self._hugepages.of(found).is_huge else {}
        missing = {
            MISSING_NETWORK: self._traffic.missing(found), MISSING_VCPUS: self._missing.get(process_of(found), ""),
        }  # fmt: skip
        return labels | {name: why for name, why in missing.items() if why}

    def _rows(self, seconds: float, monotonic: float) -> tuple[array[float], bytearray]:
        """Values and codes, filled column by column."""
        count, width = len(self._entities), len(self._columns)
        values, codes = array("d", bytes(8 * count * width)), bytearray(count * width)
        figures, marks = self._watched.rows()
        self._hugepages.add(figures, marks)
        ran = [marks[at] == VALID and figures[at] > 0.0 for at in range(GUEST, len(marks), WIDTH)]
        own = self._own(seconds, monotonic, ran)
        self._leave_out_receiving(figures, marks)
        for place, column in enumerate(self._columns):
            if column < WIDTH:
                values[place::width], codes[place::width] = figures[column::WIDTH], marks[column::WIDTH]
            else:
                values[place::width], codes[place::width] = own[column - WIDTH]
        return values, codes

    def _leave_out_receiving(self, figures: array[float], marks: bytearray) -> None:
        """Set CPU time to FIRST for processes that, before this tick, had not run the guest they were started for."""
        now, before = self._receiving
        for row, found in enumerate(self._watched.found() if now or before else ()):
            if process_of(found) in now or process_of(found) in before:
                for place in (row * WIDTH + column for column in (USER, SYSTEM, ALL_CPU)):
                    if marks[place] == VALID:
                        figures[place], marks[place] = NAN, FIRST

    def _own(self, seconds: float, monotonic: float, ran: Sequence[bool]) -> list[tuple[array[float], bytes]]:
        """Columns of VMs beyond those of processes; ``ran`` is whether each had guest time."""
        self._turn = (self._turn + 1) % _REFRESH
        counts, memory, times, states = [], [], [], []
        receiving: set[Process] = set()
        watched = self._watched.found()
        for number, (found, letter) in enumerate(zip(watched, self._watched.states(), strict=True)):
            guest, count, had = found.guest, None, None
            if guest is not None and (self._with_vcpus or guest.incoming):
                process = process_of(found)
                vcpus = self._vcpus.find(process, guest, monotonic, number % _REFRESH == self._turn)
                had = self._times.get(process)
                if had is None:
                    had = self._times[process] = VcpuTimes(self._facts, found.pid)
                times.append(had.read(vcpus.threads, seconds, monotonic))
                if ran[number]:  # even if its threads are unknown, or the kernel counts nothing for them
                    had.note_guest_time()
                count = vcpus.number
            else:
                times.append(UNKNOWN_TIMES)
            counts.append(_gauge(count))
            memory.append(_gauge(guest.memory_bytes if guest is not None else None))
            state = _state(guest, letter, None if had is None else had.ran)
            if state == INCOMING:
                receiving.add(process_of(found))
            states.append(_STATES[state])
        self._receiving = receiving, self._receiving[0]
        self._arrive(watched, monotonic)
        self._suffer(times)
        return [
            *map(_column, (counts, memory)), *self._traffic.columns(),
            *(_column([each[place] for each in times]) for place in range(len(Times._fields))), _column(states),
        ]  # fmt: skip

    def _arrive(self, watched: list[Found], monotonic: float) -> None:
        """Note which guests have run since, and those with something unknown about their vCPUs. A process never seen
        waiting for its guest may have run it since its start."""
        waits = {found.pid: found for found in watched if found.guest and found.guest.incoming}
        times = {pid: self._times.get(process_of(found)) for pid, found in waits.items()}
        ran = {pid for pid, had in times.items() if had is not None and had.ran}
        missing = {process: had.missing for process, had in self._times.items() if had.missing}
        if ran != self._arrived.keys() or missing != self._missing:
            self._missing = missing
            self._arrived = {
                pid: self._arrived.get(pid)
                or (monotonic if pid in self._waited else waits[pid].start / self._facts.hertz)
                for pid in ran
            }
            self._name()
        self._waited = waits.keys() - ran

    def _suffer(self, times: list[Times]) -> None:
        """Store the suffering of all VMs for the host's own row."""
        if self._with_vcpus:
            values, codes = zip(*(each.suffering for each in times), strict=True) if times else ((), ())
            self._facts.note_suffering(vms_suffering.summed(values, codes, self._interval))

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return self._watched.account()

    def close(self) -> None:
        """See ``Source``."""
        self._watched.close()
        self._endings.close()
        self._traffic.close()
        for times in self._times.values():
            times.close()
        self._times.clear()
        self._facts.note_suffering(None)


def _state(guest: Guest | None, letter: int, ran: bool | None) -> str:
    """State of a VM from that of its process, and whether any vCPU of it has run (None: unknown)."""
    if letter in _STOPPED or not letter:
        return STOPPED if letter else UNKNOWN
    if guest is None or not guest.incoming or ran:
        return RUNNING
    return INCOMING if ran is False or guest.accelerator == "kvm" else UNKNOWN  # KVM's threads are known once they ran


def process_of(found: Found) -> Process:
    """Key of a process, distinct from others of its pid."""
    return found.pid, found.start


def _gauge(value: float | None) -> Cell:
    """The value, MISSING if unknown."""
    return (NAN, MISSING) if value is None else (float(value), VALID)


_STATES = {state: _gauge(number_of(state)) for state in (RUNNING, STOPPED, INCOMING, UNKNOWN)}


def _column(cells: Sequence[Cell]) -> tuple[array[float], bytes]:
    """Values and codes."""
    return array("d", [value for value, _ in cells]), bytes(code for _, code in cells)
