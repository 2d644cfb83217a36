"""Picture: the data center at one tick as decision rules see it, frozen.

Rules, VM selection and placement are pure functions over these. Whatever is missing is None, never 0,
so that arithmetic with it fails loudly instead of making a silent host look idle. ``filters.judging.observe``
makes a picture from a snapshot; tests and experiments make theirs by hand.

Every metric of the tables (docs/metrics.md) has its own name here. Beside them stand three derived
readings that mean the same for hosts and VMs, a ratio of the capacity of the *host*:

``cpu_busy_ratio``      host: 1 - idle - iowait; VM: its CPU time in cores / the cores of its host
``memory_used_ratio``   host: 1 - (available + free huge pages that nothing has reserved) / total; VM: its resident
                        memory, huge pages included / the memory of its host
``network_used_ratio``  the busier direction / the speed of the links of the host
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from acquisition.model.derived import CPU, MEMORY, NETWORK
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE

if TYPE_CHECKING:
    from acquisition.model.inputs import DecisionInputs

__all__ = [
    "CPU",
    "CURRENT",
    "DOWN",
    "LATE",
    "MEMORY",
    "MISSING",
    "NETWORK",
    "VALID",
    "Conflict",
    "Host",
    "Picture",
    "Reading",
    "Remark",
    "Transit",
    "Vm",
]

VALID, MISSING = "VALID", "MISSING"  #: acquisition.model.codes.NAMES


class Reading(NamedTuple):
    """One metric of one host or VM at the tick of the picture.

    ``recent`` are its valid raw values, oldest first, at most 120; ``recent_means`` the moving averages
    at the same ticks, ``recent_steps`` the numbers of these ticks, which count those that never came (may be
    empty: one after the other). All are empty where the reader did not ask for them. ``validity`` is the code of
    ``last`` (``VALID``, ``VALID|OUTLIER``, ``MISSING`` …); ``stale_seconds`` runs from the last valid value
    to this tick and is 0 where ``last`` is valid, None where there never was one.
    """

    metric: str
    mean: float | None = None
    deviation: float | None = None
    trend: float | None = None  #: units per second
    last: float | None = None
    validity: str = MISSING
    age_seconds: float | None = None  #: since the tick was sampled
    stale_seconds: float | None = None
    inputs: DecisionInputs | None = None
    recent: Sequence[float] = ()
    recent_means: Sequence[float] = ()
    recent_steps: Sequence[int] = ()
    unit: str = ""
    interval: float = 1.0  #: seconds between two values
    extra: Mapping[str, float | None] = {}  #: the figures of further kernels by name (acquisition.wire.records.planes)


class Vm(NamedTuple):
    """A VM, or a process where a host has no VMs. ``id`` survives migration (uuid; HOST:PID of a process)."""

    id: str
    name: str
    host: str  #: id of the host that bears its load; while it migrates, the source
    state: str = CURRENT  #: of acquisition.snapshot.values.states, or acquisition.model.vm_state.STOPPED
    age_seconds: float | None = None
    labels: Mapping[str, str] = {}
    readings: Mapping[str, Reading] = {}
    migrating: bool = False
    observed_seconds: float | None = None  #: since its first valid value on this host; None: unknown
    kind: str = "vm"  #: or process
    entity: str = ""  #: 64-bit identity in hex, as in rows of a snapshot


class Host(NamedTuple):
    """A host with what runs on it. ``id`` is its identity in 16 hex digits."""

    id: str
    name: str
    state: str = CURRENT  #: of acquisition.snapshot.values.states
    age_seconds: float | None = None
    labels: Mapping[str, str] = {}
    readings: Mapping[str, Reading] = {}
    vms: Sequence[Vm] = ()  #: may be made when it is first looked at
    reason: str = ""  #: why it is not current
    cause: str = ""  #: of acquisition.snapshot.values.states.CAUSES: why it is unknown or down


class Transit(NamedTuple):
    """A VM that several hosts report: ids of the VM, of the host that bears its load, of the other one, and of the one
    that has its oldest process, where it came from. ``binds``: it is taken for a migration, which has lasted for a
    minute at most."""

    vm: str
    source: str
    destination: str
    origin: str
    binds: bool = True


class Conflict(NamedTuple):
    """A VM that runs on one host, while another one claims to run it too: ids of the VM, of the host that has it and of
    the ``claimant``."""

    vm: str
    host: str
    claimant: str


class Remark(NamedTuple):
    """Remark about a VM: its id, the ``kind`` of its event (acquisition.link.happenings), ``text``."""

    vm: str
    kind: str
    text: str


class Picture(NamedTuple):
    """All hosts at one tick. ``errors`` are what could not be read: it is then not all hosts. ``blind``
    says why no host can be seen; it is one of the errors then."""

    tick: int
    now: float  #: wall clock of the reader, seconds
    hosts: Sequence[Host]
    errors: tuple[str, ...] = ()
    transits: tuple[Transit, ...] = ()
    blind: str = ""
    conflicts: tuple[Conflict, ...] = ()
    remarks: tuple[Remark, ...] = ()
