"""Virtual machines from /proc: a qemu process with the guest that its options describe.

Figures of the process as in ``procfs_processes`` (the guest's own CPU time is
``cpu_guest_ratio``), the vCPUs that it has now, the memory that it was given, and the traffic of its tap interfaces,
MISSING where unknown. The host sees a tap from the other side: what the host transmits into it the guest receives.
"""

from __future__ import annotations

from array import array

from acquisition.model.codes import MISSING, NAN, VALID
from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.rate import UNKNOWN_LINK, growth
from probes.discovery import Discovery, Found
from probes.guest_process import Vcpus, taps
from probes.host_facts import HostFacts
from probes.metrics import PROCESSES, VMS
from probes.reading import Reading
from probes.sources import Request
from probes.sources.figures import CounterMemory
from probes.sources.guest_hugepages import GuestHugepages
from probes.sources.network import Traffic, total
from probes.sources.polled import Polled
from probes.sources.process_files import WIDTH
from probes.sources.procfs_processes import Watched
from probes.vm_identity import Identity, identities

#: A guest's network cards may be plugged in later: its taps are looked for again after so many readings, and its vCPUs
#: are counted again, those of some guests at each.
_REFRESH = 60


def create(request: Request) -> VmSource:
    """See ``probes.sources``."""
    return VmSource(request.resource_set, request.facts, request.discovery)


def vm_entity(facts: HostFacts, found: Found, identity: Identity, hugepages: bool = False) -> Entity:
    """The row of one VM: its epoch is the process that runs it. ``hugepages``: its memory is in huge pages, which a
    destination must have."""
    epoch = f"{facts.boot_id}:{found.pid}:{found.start}"
    name = (found.guest.name if found.guest else "") or found.command
    labels = identity.labels | ({"hugepages": "yes"} if hugepages else {})
    return Entity(entity_id("vm", identity.stable, epoch), "vm", identity.stable, epoch, name, labels)


class VmSource(Polled):
    """All qemu processes of the host."""

    name = "procfs"

    def __init__(self, resource_set: ResourceSet, facts: HostFacts, discovery: Discovery) -> None:
        every = [metric.name for metric in VMS.metrics]
        self._columns = tuple(every.index(metric.name) for metric in resource_set.metrics)
        self._set = resource_set
        self._facts = facts
        self._discovery = discovery
        self._watched = Watched(facts, discovery, tuple(c for c in self._columns if c < len(PROCESSES.metrics)))
        self._hugepages = GuestHugepages(facts, self._watched.found)
        self._traffic = Traffic(facts.proc)
        self._with_traffic = any(column >= WIDTH + 2 for column in self._columns)
        self._counters: dict[int, CounterMemory] = {}
        self._taps: dict[int, list[str]] = {}
        self._vcpus = Vcpus(facts.proc)
        self._with_vcpus = WIDTH in self._columns
        self._turn = 0
        self._entities: list[Entity] = []
        self._generation = -1
        self._never = True  # nobody was watched yet
        self._last = 0.0

    def sample(self, wall: float, monotonic: float) -> Reading | None:
        """See ``Source``; None as long as there never was a VM."""
        generation = self._discovery.refresh(monotonic)
        changed = False
        if generation != self._generation:
            self._generation = generation
            changed = self._watched.follow(self._discovery.guests)
        seconds = monotonic - self._last if self._last else 0.0
        self._last = monotonic
        if not changed and not self._entities and not len(self._watched):
            if self._never:
                return None
            return self._reading(array("d"), bytearray(), wall, monotonic, seconds)
        changed |= self._watched.read(seconds)
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
        alive = {found.pid for found in watched}
        self._counters = {pid: kept for pid, kept in self._counters.items() if pid in alive}
        self._taps = {pid: kept for pid, kept in self._taps.items() if pid in alive}
        self._vcpus.keep({(found.pid, found.start) for found in watched})
        known = identities(self._facts, watched)
        self._entities = [
            vm_entity(self._facts, found, known[found.pid], self._hugepages.of(found).is_huge) for found in watched
        ]

    def _rows(self, seconds: float, monotonic: float) -> tuple[array[float], bytearray]:
        """Values and codes, filled column by column."""
        count, width = len(self._entities), len(self._columns)
        values, codes = array("d", bytes(8 * count * width)), bytearray(count * width)
        figures, marks = self._watched.rows()
        self._hugepages.add(figures, marks)
        more = self._sizes(monotonic) + self._guests_traffic(seconds)
        for place, column in enumerate(self._columns):
            if column < WIDTH:
                values[place::width], codes[place::width] = figures[column::WIDTH], marks[column::WIDTH]
            else:
                values[place::width], codes[place::width] = more[column - WIDTH]
        return values, codes

    def _sizes(self, monotonic: float) -> list[tuple[array[float], bytes]]:
        """The vCPUs and the memory of all guests; on the way the taps of some are looked for."""
        self._turn = (self._turn + 1) % _REFRESH
        vcpus, memory = [], []
        for number, found in enumerate(self._watched.found()):
            again = number % _REFRESH == self._turn
            if self._with_traffic and (again or found.pid not in self._taps):
                self._taps[found.pid] = taps(self._facts.proc, found.pid)
            vcpus.append(self._count(found, monotonic, again))
            memory.append(found.guest.memory_bytes if found.guest else None)
        return [_column(vcpus), _column(memory)]

    def _count(self, found: Found, monotonic: float, again: bool) -> int | None:
        if found.guest is None or not self._with_vcpus:
            return None
        return self._vcpus.count((found.pid, found.start), found.guest, monotonic, again)

    def _guests_traffic(self, seconds: float) -> list[tuple[array[float], bytes]]:
        """What all guests receive and what they transmit: values and codes."""
        traffic, count = self._interfaces(), len(self._entities)
        if not traffic:
            return [(array("d", [NAN]) * count, bytes([MISSING]) * count)] * 2
        both = [self._guest_traffic(found.pid, traffic, seconds) for found in self._watched.found()]
        columns = [[each[way] for each in both] for way in range(2)]
        return [(array("d", [value for value, _ in cells]), bytes([code for _, code in cells])) for cells in columns]

    def _interfaces(self) -> dict[str, tuple[int, int]]:
        if not any(self._taps.values()):
            return {}
        try:
            return self._traffic.read()
        except OSError:
            return {}

    def _guest_traffic(self, pid: int, traffic: dict[str, tuple[int, int]], seconds: float) -> list[tuple[float, int]]:
        """What the guest receives and transmits: what the host transmits into and receives from its taps."""
        names = [name for name in self._taps.get(pid, ()) if name in traffic]
        if not names:
            return [(NAN, MISSING), (NAN, MISSING)]
        counters = self._counters.setdefault(pid, CounterMemory())
        most = UNKNOWN_LINK * growth(seconds)  # of a tap, which has no speed of its own
        return [
            total([counters.rate(f"{name}{column}", traffic[name][column], seconds, most=most) for name in names])
            for column in (1, 0)
        ]

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return self._watched.account()

    def close(self) -> None:
        """See ``Source``."""
        self._watched.close()
        self._traffic.close()


def _column(known: list[int | None]) -> tuple[array[float], bytes]:
    """Values and codes: MISSING where nothing is known."""
    values = array("d", [NAN if value is None else value for value in known])
    return values, bytes(MISSING if value is None else VALID for value in known)
