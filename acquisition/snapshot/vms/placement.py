"""Placement: the one host of a VM, even while two hosts report it (pure).

While a VM migrates there are two processes: the source runs the guest until it pauses or ends; the
destination, started to receive it, is idle. Only one of them runs the guest at a time. The rule:

1. The process that runs the guest in this tick; if several, the oldest, since in the tick of the
   switch both have run it. The oldest of all keeps it as long as its CPU time advances.
2. If none does: the youngest that has ever run it, of those that have reported within the limit (or of all).
   The guest is idle, or stopped between source and destination; a process that never ran it is incoming.
3. If none is known to have run it, it may be emulated, or its kernel does not separate guest time from system time.
   Then the CPU time of its vCPU threads is used instead, or, if they are unknown, that of the process, which
   proves less, as receiving a guest takes CPU too: the oldest stays until it has ended, or is inactive while another
   is not.

An aborted migration reverts by rule 1 or, as soon as the other process has ended, by itself.

Any statement of a host about a VM is a claim: it may claim any VM. The oldest is the one the filter saw first, whatever
ages the hosts report. For a minute two of them are a migration; one that lasts longer is INCOMING, or,
if CPU time advances in both, a CONFLICT, and neither prevents moves of the VM or of anything else on its host.

One id with several names means several VMs, copies with the id unchanged, unless a process was started to receive
a guest: until that has run, and if the guest has changed over, it is the VM of the older process under another
name (``vms_of``). The VM seen first keeps the id.

If its vCPUs have run on two hosts at once for some seconds it *runs twice* (``Placement.running_hosts``): a broken
migration has left two copies, which may write to one disk.

/proc cannot distinguish a paused guest from an idle one. Both have no guest time in a tick.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.states import CLAIM_SECONDS, CURRENT
from acquisition.snapshot.vms.evidence import STANDSTILL, VM, EvidenceIndex, VmEvidence, evidence_by_vm, evidence_of
from acquisition.wire.table import Entity

RUNNING = "running"  #: one process has it; it may be idle or paused
MIGRATING = "migrating"  #: several processes have it, for ``CLAIM_SECONDS`` at most
#: Several have had it for longer, and its CPU time advances only at its place: a long migration, or none.
INCOMING = "incoming"
CONFLICT = "conflict"  #: several have had it for longer, and its CPU time advances in one that came later as well
#: One process has it, which was started to receive it and has not run it yet (or it has been paused ever
#: since): CPU used by that process is not the load of the VM.
ARRIVING = "arriving"
UNSEEN = "unseen"  #: one process has it, on a host that is late or down: its last place

STATES = (RUNNING, MIGRATING, INCOMING, CONFLICT, ARRIVING, UNSEEN)

#: Seconds after a guest first ran during which its former process may still have run in the same tick.
_SWITCH_SECONDS = 3.0
#: CPU time of vCPUs, in cores, above noise; and the fraction of it that the average reaches after they have run for
#: some seconds (0.7 time constants): in the tick of a switch both have run.
_ADVANCES, _SETTLED = 0.001, 0.5
#: Mark of a row that is not the place of its VM.
SHADOW = "shadow"


class Placement(NamedTuple):
    """Where a VM is: ``entity_id`` is the process that is its place and load, ``evidence`` are all, oldest first.

    ``other_hosts`` are those of the other processes while it is MIGRATING, INCOMING or in CONFLICT, including its own
    if it migrates within it. A process without news for longer than the limit (its host is down), or known from a
    table only, is not included once the guest has run elsewhere.
    """

    vm: str
    host_id: int
    host: str
    entity_id: int
    state: str  #: of STATES
    host_state: str  #: current, late, down
    age_seconds: float  #: age of what is known of it
    other_hosts: tuple[str, ...]
    evidence: tuple[VmEvidence, ...]

    @property
    def other_host(self) -> str | None:
        """The other host of a migration."""
        return self.other_hosts[-1] if self.other_hosts else None

    @property
    def claimants(self) -> tuple[VmEvidence, ...]:
        """In a CONFLICT, the processes by which hosts claim a VM that is on another one."""
        if self.state != CONFLICT:
            return ()
        return tuple(
            each for each in self.evidence if each.host_id != self.host_id and _is_there(each) and _claims(each)
        )

    @property
    def running_hosts(self) -> tuple[str, ...]:
        """Hosts on which its vCPUs run, by their own statements, if several: it runs twice. Otherwise empty."""
        hosts = {each.host_id: each.host for each in self.evidence if _is_there(each) and _keeps_running(each)}
        return tuple(hosts.values()) if len(hosts) > 1 else ()

    @property
    def source(self) -> str | None:
        """Host it comes from while it migrates: by the statements of the processes, which decide nothing."""
        return min(self.evidence, key=_age).host if self.state == MIGRATING else None

    @property
    def destination(self) -> str | None:
        """Host it goes to while it migrates."""
        return max(self.evidence, key=_age).host if self.state == MIGRATING else None


def vms_of(evidence: Iterable[VmEvidence]) -> list[list[VmEvidence]]:
    """Processes of each VM among those of one id, beginning with the VM of the process seen first."""
    found: list[list[VmEvidence]] = []
    for process in sorted(evidence, key=_seniority):
        same = (vm for vm in found if any(each.name == process.name for each in vm))
        renamed = (vm for vm in found if any(_goes_on_in(each, process) for each in vm))
        vm = next(same, None) or next(renamed, None)
        if vm is None:
            found.append([process])
        else:
            vm.append(process)
    return found


def _goes_on_in(older: VmEvidence, younger: VmEvidence) -> bool:
    """Whether the guest of a process migrates, or has migrated, to one under another name: that was started later to
    receive it, and while it runs there it does not run here."""
    if older.born is not None and younger.born is not None and younger.born < older.born:
        return False
    if younger.incoming:
        return True
    ran = younger.received_seconds
    return ran is not None and (ran <= _SWITCH_SECONDS or (ran <= CLAIM_SECONDS and not _runs(older)))


def _runs(process: VmEvidence) -> bool:
    return process.works if process.run.now is None else process.run.now > 0.0


def settle(vm: str, evidence: Iterable[VmEvidence]) -> Placement:
    """The one place of a VM. The order of ``evidence`` does not matter; it must not be empty."""
    known = sorted(evidence, key=_seniority)
    place = _place(known)
    others = [process for process in known if process is not place and (_is_there(process) or not _is_there(place))]
    if others:
        state = _state_beside(place, others, known[0])
    elif place.host_state != CURRENT:
        state = UNSEEN
    elif place.waits_for_guest:
        state = ARRIVING
    else:
        state = RUNNING
    return Placement(
        vm,
        place.host_id,
        place.host,
        place.entity_id,
        state,
        place.host_state,
        place.age_seconds,
        tuple(process.host for process in others),
        tuple(known),
    )


def _is_there(process: VmEvidence) -> bool:
    return process.certain and not process.unheard


def _keeps_running(process: VmEvidence) -> bool:
    vcpus = process.guest if process.run.now is None else process.run
    now = vcpus.now or 0.0
    return process.host_state == CURRENT and now >= _ADVANCES and (vcpus.mean or 0.0) >= _SETTLED * now


def _state_beside(place: VmEvidence, others: Sequence[VmEvidence], oldest: VmEvidence) -> str:
    """State of a VM with several processes: from how long both have been seen, by the filter's clock."""
    now = max(process.filtered for process in (place, *others))
    both_since = [
        max(place.first_seen, process.first_seen)
        for process in others
        if place.first_seen is not None and process.first_seen is not None
    ]
    if len(both_since) < len(others) or now - max(both_since) <= CLAIM_SECONDS:
        return MIGRATING
    return CONFLICT if place is oldest and any(map(_claims, others)) else INCOMING


def _claims(process: VmEvidence) -> bool:
    """Whether it claims to run the VM; CPU time of one that receives a guest may be that of receiving."""
    return process.works and (process.guest.ever or not process.incoming)


_Age = tuple[float, float, float, int, int]


def _age(process: VmEvidence) -> _Age:
    """Oldest first; processes not known to be young come first, those that have worked more before others."""
    born = float("-inf") if process.born is None else process.born
    return born, -(process.guest.mean or 0.0), -(process.cpu.mean or 0.0), process.host_id, process.entity_id


def _seniority(process: VmEvidence) -> tuple[float, _Age]:
    """The same as seen by the filter; by the host's statement only if no filter has more."""
    return _age(process)[0] if process.first_seen is None else process.first_seen, _age(process)


def _place(known: Sequence[VmEvidence]) -> VmEvidence:
    """The process that has the VM; ``known`` are all, oldest first."""
    oldest = known[0]
    if oldest.host_state == CURRENT and oldest.works:
        return oldest
    return _by_guest_time(known) if any(process.guest.ever for process in known) else _by_cpu_time(known)


def _by_guest_time(evidence: Sequence[VmEvidence]) -> VmEvidence:
    running = [process for process in evidence if (process.guest.now or 0.0) > 0.0]
    if running:
        return running[0]
    ran = [process for process in evidence if process.guest.ever]
    heard = [process for process in ran if not process.unheard] or ran
    return max(heard, key=lambda process: (_seniority(process)[0], process.guest.mean or 0.0))


def _by_cpu_time(evidence: Sequence[VmEvidence]) -> VmEvidence:
    place = evidence[0]
    for younger in evidence[1:]:
        if _has_taken_over(place, younger):
            place = younger
    return place


def _has_taken_over(older: VmEvidence, younger: VmEvidence) -> bool:
    """While both are inactive their averages fall alike: the larger one stays larger."""
    if younger.load.now is None or (younger.run.now is not None and younger.waits_for_guest):
        return False
    works = younger.load.now >= STANDSTILL
    if older.unheard:
        return works
    if not older.certain:
        return works and not younger.incoming
    if older.load.now is None or older.load.now >= STANDSTILL:
        return False
    return works or (younger.load.mean or 0.0) > (older.load.mean or 0.0)


_NO_COPIES: Mapping[tuple[int, int], str] = {}


class Placements:
    """Places of the VMs of one snapshot.

    ``contested`` holds those with several processes, by id: few. A reader that iterates over rows skips
    those with ``is_shadow``: they are not their VM's place, and their figures not its load. ``copies`` are
    the ids of VMs that share the uuid of another, by host id and entity id of each process: ``HOST:NAME``, as in
    ``probes.vms.vm_identity``.
    """

    def __init__(
        self,
        blocks: Sequence[Block],
        contested: Mapping[str, Placement],
        copies: Mapping[tuple[int, int], str] = _NO_COPIES,
    ) -> None:
        self._blocks = blocks
        self.contested = contested
        self.copies = copies

    def id_of(self, host_id: int, entity: Entity) -> str:
        """Id of a VM: the reported one, unless that is also the id of another VM."""
        return self.copies.get((host_id, entity.id), entity.stable)

    @staticmethod
    def of(blocks: Sequence[Block]) -> Placements:
        """Places from these blocks alone."""
        index = EvidenceIndex()
        index.take(blocks)
        return placements_of(blocks, index.contested())

    @cached_property
    def shadows(self) -> frozenset[tuple[int, int]]:
        """(host id, entity id) of processes that are not the place of their VM."""
        return frozenset(
            (process.host_id, process.entity_id)
            for placement in self.contested.values()
            for process in placement.evidence
            if (process.host_id, process.entity_id) != (placement.host_id, placement.entity_id)
        )

    def is_shadow(self, host_id: int, entity_id: int) -> bool:
        """Whether a row is not the place of its VM."""
        return (host_id, entity_id) in self.shadows

    def is_migrating(self, vm: str) -> bool:
        """Whether several processes have a VM, and only for a short time: one of a host that has gone down meanwhile
        does not count."""
        return vm in self.contested and self.contested[vm].state == MIGRATING

    def mark(self, host_id: int, entity: Entity) -> str:
        """SHADOW, MIGRATING, or "" for a row that is the only one of its VM, or not of a VM."""
        vm = self.id_of(host_id, entity)
        if entity.kind != VM or vm not in self.contested:
            return ""
        if self.is_shadow(host_id, entity.id):
            return SHADOW
        return MIGRATING if self.is_migrating(vm) else ""

    def of_row(self, block: Block, row: int) -> Placement:
        """Place of the VM that a row is a process of."""
        entity = block.entities[row]
        vm = self.id_of(block.host_id, entity)
        return self.contested.get(vm) or settle(vm, [evidence_of(block, row)])

    @cached_property
    def all(self) -> Mapping[str, Placement]:
        """Every VM by id; made on first use."""
        found = dict(self.contested)
        for block in self._blocks:
            for row, entity in enumerate(block.entities):
                if entity.kind == VM and (vm := self.id_of(block.host_id, entity)) not in found:
                    found[vm] = self.of_row(block, row)
        return found


NOWHERE = Placements((), {})  #: for blocks without VMs


def placements_of(blocks: Sequence[Block], contested: Mapping[str, Sequence[Owner]]) -> Placements:
    """Places of the VMs of these blocks; ``contested`` are the block owners of each VM reported several times."""
    owners = {owner for several in contested.values() for owner in several}
    there = [block for block in blocks if (block.host_id, block.set_id) in owners]
    places: dict[str, Placement] = {}
    copies: dict[tuple[int, int], str] = {}
    for stable, found in evidence_by_vm(contested, there).items():
        for number, processes in enumerate(vms_of(found)):
            vm = f"{processes[0].host}:{processes[0].name}" if number else stable
            if number:
                copies.update(((each.host_id, each.entity_id), vm) for each in processes)
            if len(processes) > 1:
                places[vm] = settle(vm, processes)
    return Placements(blocks, places, copies)
