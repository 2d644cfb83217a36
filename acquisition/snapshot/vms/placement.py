"""Placement: the one host of a VM, even while two hosts report it (pure).

While a VM migrates there are two processes: the source runs the guest until it pauses or ends, the
destination was started to receive it and is idle. Only one of them runs the guest at a time. The rule:

1. The process that runs the guest in this tick; the oldest of those, as in the tick in which
   the guest changes over both have run it. The oldest of all keeps it as long as its CPU time advances.
2. If none does: the youngest that has ever run it, of those that have reported within the limit (or of all).
   The guest is idle, or stands still between source and destination; what has never run it is an incoming process.
3. If none is known to have run it, it may be emulated, or its kernel does not separate guest time from system time.
   Then the CPU time of its vCPU threads takes its place, or, where they are not known, that of the process, which
   proves less, as receiving a guest takes CPU too: the oldest stays until it has ended, or stands still while another
   does not.

An aborted migration reverts by rule 1 or, as soon as the other process has ended, by itself.

Whatever a host says of a VM is a claim: it may say it of any. The oldest is the one that the filter saw first, whatever
the hosts say of their processes' age. For a minute two of them are a migration; one that lasts longer is INCOMING, or,
where CPU time advances in both, a CONFLICT, and neither keeps the VM, or anything else of its host, from being moved.

One id and several names are several VMs, copies of which nobody changed the id, unless a process was started to receive
a guest: while that has not run, and where the guest has changed over, it is the VM of the older process under another
name (``vms_of``). The VM that was seen first keeps the id.

Where its vCPUs have run on two hosts at once for some seconds it *runs twice* (``Placement.running_hosts``): a broken
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
#: Several have had it for longer, and no CPU time of it advances but where it is: a long migration, or none.
INCOMING = "incoming"
CONFLICT = "conflict"  #: several have had it for longer, and CPU time of it advances in one that came later as well
#: One process has it, which was started to receive it and has not run it yet (or it has been paused ever
#: since): what that process uses is not the load of the VM.
ARRIVING = "arriving"
UNSEEN = "unseen"  #: one process has it, on a host that is late or down: where it was last

STATES = (RUNNING, MIGRATING, INCOMING, CONFLICT, ARRIVING, UNSEEN)

#: Seconds after a guest first ran in which the process that it came from may still have run in the same tick.
_SWITCH_SECONDS = 3.0
#: CPU time of vCPUs, in cores, that is no noise; and the part of it that its average has come to when they have run for
#: some seconds (0.7 time constants): in the tick of a switch both have run.
_ADVANCES, _SETTLED = 0.001, 0.5
#: What a row is that is not the place of its VM.
SHADOW = "shadow"


class Placement(NamedTuple):
    """Where a VM is: ``entity_id`` is the process that is its place and load, ``evidence`` are all, oldest first.

    ``other_hosts`` are those of the other processes while it is MIGRATING, INCOMING or in CONFLICT, its own among them
    if it migrates within it. A process that is unheard of for longer than the limit (its host is down), or that only a
    table names, is none of them once the guest has run elsewhere.
    """

    vm: str
    host_id: int
    host: str
    entity_id: int
    state: str  #: of STATES
    host_state: str  #: current, late, down
    age_seconds: float  #: of what is known of it
    other_hosts: tuple[str, ...]
    evidence: tuple[VmEvidence, ...]

    @property
    def other_host(self) -> str | None:
        """The other host of a migration."""
        return self.other_hosts[-1] if self.other_hosts else None

    @property
    def claimants(self) -> tuple[VmEvidence, ...]:
        """In a CONFLICT the processes by which hosts claim the VM that another one has."""
        if self.state != CONFLICT:
            return ()
        return tuple(
            each for each in self.evidence if each.host_id != self.host_id and _is_there(each) and _claims(each)
        )

    @property
    def running_hosts(self) -> tuple[str, ...]:
        """The hosts on which its vCPUs run, by their own word, where these are several: it runs twice. Empty else."""
        hosts = {each.host_id: each.host for each in self.evidence if _is_there(each) and _keeps_running(each)}
        return tuple(hosts.values()) if len(hosts) > 1 else ()

    @property
    def source(self) -> str | None:
        """The host that it comes from, while it migrates: by the processes' own word, which decides nothing."""
        return min(self.evidence, key=_age).host if self.state == MIGRATING else None

    @property
    def destination(self) -> str | None:
        """The host that it goes to, while it migrates."""
        return max(self.evidence, key=_age).host if self.state == MIGRATING else None


def vms_of(evidence: Iterable[VmEvidence]) -> list[list[VmEvidence]]:
    """The processes of each VM among those of one id, that of the process that was seen first in front."""
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
    receive it, and since it runs there it does not run here."""
    if older.born is not None and younger.born is not None and younger.born < older.born:
        return False
    if younger.incoming:
        return True
    ran = younger.received_seconds
    return ran is not None and (ran <= _SWITCH_SECONDS or (ran <= CLAIM_SECONDS and not _runs(older)))


def _runs(process: VmEvidence) -> bool:
    return process.works if process.run.now is None else process.run.now > 0.0


def settle(vm: str, evidence: Iterable[VmEvidence]) -> Placement:
    """The one place of a VM. The order of ``evidence`` does not matter; there must be one at least."""
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
    """Of a VM that several processes have: how long both have been seen, by the filter's clock."""
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
    """Whether it runs the VM, by its own word; CPU time of one that receives a guest may be that of receiving."""
    return process.works and (process.guest.ever or not process.incoming)


_Age = tuple[float, float, float, int, int]


def _age(process: VmEvidence) -> _Age:
    """Oldest first; what is not known to be young comes before, what has worked more before what has worked less."""
    born = float("-inf") if process.born is None else process.born
    return born, -(process.guest.mean or 0.0), -(process.cpu.mean or 0.0), process.host_id, process.entity_id


def _seniority(process: VmEvidence) -> tuple[float, _Age]:
    """The same by the filter; by the host itself only where no filter says more."""
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
    """While both stand still their averages fall alike: the larger one stays the larger."""
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
    """The places of the VMs of one snapshot.

    ``contested`` holds those that several processes have, by id: few. A reader that walks over rows skips
    those for which ``is_shadow`` is true: they are not their VM's place, and their figures not its load. ``copies`` are
    the ids of VMs that another one has the uuid of, by host id and entity id of each process: ``HOST:NAME``, as in
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
        """Id of a VM: the one that its host reports, unless that is the id of another VM as well."""
        return self.copies.get((host_id, entity.id), entity.stable)

    @staticmethod
    def of(blocks: Sequence[Block]) -> Placements:
        """The places by these blocks alone."""
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
        """Whether several processes have a VM, and have for a short time: one of a host that has gone down meanwhile
        does not count."""
        return vm in self.contested and self.contested[vm].state == MIGRATING

    def mark(self, host_id: int, entity: Entity) -> str:
        """SHADOW, MIGRATING, or nothing for a row that is all there is of its VM, or of no VM."""
        vm = self.id_of(host_id, entity)
        if entity.kind != VM or vm not in self.contested:
            return ""
        if self.is_shadow(host_id, entity.id):
            return SHADOW
        return MIGRATING if self.is_migrating(vm) else ""

    def of_row(self, block: Block, row: int) -> Placement:
        """The place of the VM that a row is a process of."""
        entity = block.entities[row]
        vm = self.id_of(block.host_id, entity)
        return self.contested.get(vm) or settle(vm, [evidence_of(block, row)])

    @cached_property
    def all(self) -> Mapping[str, Placement]:
        """Every VM by id; made when it is first asked for."""
        found = dict(self.contested)
        for block in self._blocks:
            for row, entity in enumerate(block.entities):
                if entity.kind == VM and (vm := self.id_of(block.host_id, entity)) not in found:
                    found[vm] = self.of_row(block, row)
        return found


NOWHERE = Placements((), {})  #: of blocks without VMs


def placements_of(blocks: Sequence[Block], contested: Mapping[str, Sequence[Owner]]) -> Placements:
    """The places of the VMs of these blocks; ``contested`` are the owners of those of each VM that several report."""
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
