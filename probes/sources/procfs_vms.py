"""Virtual machines from /proc: a qemu process with the guest that its command line names.

Figures of the process as in ``procfs_processes`` (the guest's own CPU time is
``cpu_guest_ratio``), and vCPUs, memory and the traffic of its tap interfaces. The host sees a
tap from the other side: what the host transmits into it the guest receives.
"""

from __future__ import annotations

from array import array

from acquisition.model.codes import MISSING, NAN
from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.rate import UNKNOWN_LINK, growth
from probes.discovery import Discovery, Found
from probes.host_facts import HostFacts
from probes.metrics import PROCESSES, VMS
from probes.qemu import Guest, taps
from probes.reading import Reading
from probes.sources import Request
from probes.sources.figures import CounterMemory
from probes.sources.guest_hugepages import GuestHugepages
from probes.sources.network import Traffic, total
from probes.sources.polled import Polled
from probes.sources.process_files import WIDTH
from probes.sources.procfs_processes import Watched

#: A guest's network cards may be plugged in later: its taps are looked for again after so many readings, those of some
#: guests at each.
_TAPS_REFRESH = 60


def create(request: Request) -> VmSource:
    """See ``probes.sources``."""
    return VmSource(request.resource_set, request.facts, request.discovery)


def vm_entity(facts: HostFacts, found: Found, guest: Guest, hugepages: bool = False) -> Entity:
    """The row of one VM: stable is its uuid (or its name on this host), its epoch the process that runs it.

    Labels that tell where a VM is while two hosts report it: ``started`` (seconds after the boot of the host),
    and, where they are known, ``accelerator`` and ``incoming`` (it was started to receive a migration). ``hugepages``:
    its memory is in huge pages, which a destination must have.
    """
    stable = guest.uuid or f"{facts.name}:{guest.name or found.pid}"
    epoch = f"{facts.boot_id}:{found.pid}:{found.start}"
    labels = {"pid": str(found.pid), "uuid": guest.uuid, "host": facts.name}
    labels["started"] = f"{found.start / facts.hertz:.2f}"
    if guest.accelerator:
        labels["accelerator"] = guest.accelerator
    if guest.incoming:
        labels["incoming"] = "yes"
    if hugepages:
        labels["hugepages"] = "yes"
    return Entity(entity_id("vm", stable, epoch), "vm", stable, epoch, guest.name or found.command, labels)


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
        self._turn = 0
        self._entities: list[Entity] = []
        self._sizes: tuple[array[float], array[float]] = (array("d"), array("d"))  # vCPUs and memory of each
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
        gone = self._watched.read(seconds)
        if self._hugepages.look(monotonic) or gone or changed:
            self._forget()
        self._never = False
        self._look_for_taps()
        return self._reading(*self._rows(seconds), wall, monotonic, seconds)

    def _reading(
        self, values: array[float], codes: bytearray, wall: float, monotonic: float, seconds: float
    ) -> Reading:
        facts = self._facts
        return Reading(
            self._set, self._entities, values, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def _forget(self) -> None:
        alive = {found.pid for found in self._watched.found()}
        self._counters = {pid: kept for pid, kept in self._counters.items() if pid in alive}
        self._taps = {pid: kept for pid, kept in self._taps.items() if pid in alive}
        guests = [(found, found.guest) for found in self._watched.found() if found.guest is not None]
        self._entities = [
            vm_entity(self._facts, found, guest, self._hugepages.of(found).is_huge) for found, guest in guests
        ]
        self._sizes = (
            array("d", [guest.vcpus for _, guest in guests]),
            array("d", [guest.memory_bytes for _, guest in guests]),
        )

    def _look_for_taps(self) -> None:
        if not self._with_traffic:
            return
        self._turn = (self._turn + 1) % _TAPS_REFRESH
        for number, found in enumerate(self._watched.found()):
            if found.pid not in self._taps or number % _TAPS_REFRESH == self._turn:
                self._taps[found.pid] = taps(self._facts.proc, found.pid)

    def _rows(self, seconds: float) -> tuple[array[float], bytearray]:
        """Values and codes, filled column by column."""
        count, width = len(self._entities), len(self._columns)
        values, codes = array("d", bytes(8 * count * width)), bytearray(count * width)
        figures, marks = self._watched.rows()
        self._hugepages.add(figures, marks)
        more = [(cells, bytes(count)) for cells in self._sizes] + self._guests_traffic(seconds)
        for place, column in enumerate(self._columns):
            if column < WIDTH:
                values[place::width], codes[place::width] = figures[column::WIDTH], marks[column::WIDTH]
            else:
                values[place::width], codes[place::width] = more[column - WIDTH]
        return values, codes

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
