"""Picture: the data center at one tick as decision rules see it, frozen.

Rules, VM selection and placement are pure functions over pictures. Missing values are None, never 0,
so that arithmetic with them fails loudly instead of making a silent host look idle. ``filters.judging.observe``
makes a picture from a snapshot; tests and experiments make theirs by hand.

Metrics of the tables (docs/metrics.md) keep their names here. In addition there are three derived
readings with the same meaning for hosts and VMs, a ratio of the capacity of the *host*:

``cpu_busy_ratio``      host: 1 - idle - iowait; VM: its CPU time in cores / the cores of its host
``memory_used_ratio``   host: 1 - (available + free unreserved huge pages) / total; VM: its resident
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

    ``recent``: valid raw values, oldest first, at most 120; ``recent_means``: the moving averages
    at the same ticks; ``recent_steps``: the numbers of these ticks, counting those that never arrived (may be
    empty: consecutive). All are empty if the reader did not request them. ``validity``: code of
    ``last`` (``VALID``, ``VALID|OUTLIER``, ``MISSING`` …). ``stale_seconds``: time from the last valid value
    to this tick, 0 if ``last`` is valid, None if there never was one.
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
    """A VM, or a process if a host has no VMs. ``id`` survives migration (uuid; HOST:PID of a process)."""

    id: str
    name: str
    host: str  #: id of the host that carries its load; during a migration, the source
    state: str = CURRENT  #: of acquisition.snapshot.values.states, or acquisition.model.vm_state.STOPPED
    age_seconds: float | None = None
    labels: Mapping[str, str] = {}
    readings: Mapping[str, Reading] = {}
    migrating: bool = False
    observed_seconds: float | None = None  #: since its first valid value on this host; None: unknown
    kind: str = "vm"  #: or process
    entity: str = ""  #: 64-bit identity in hex, as in rows of a snapshot


class Host(NamedTuple):
    """A host and its VMs. ``id`` is its identity in 16 hex digits."""

    id: str
    name: str
    state: str = CURRENT  #: of acquisition.snapshot.values.states
    age_seconds: float | None = None
    labels: Mapping[str, str] = {}
    readings: Mapping[str, Reading] = {}
    vms: Sequence[Vm] = ()  #: may be made on first access
    reason: str = ""  #: reason it is not current
    cause: str = ""  #: of acquisition.snapshot.values.states.CAUSES: why it is unknown or down


class Transit(NamedTuple):
    """A VM that several hosts report: ids of the VM, of the host that carries its load, of the other host, and of the
    host with its oldest process, where it came from. ``binds``: it counts as a migration, lasting for at most a
    minute so far."""

    vm: str
    source: str
    destination: str
    origin: str
    binds: bool = True


class Conflict(NamedTuple):
    """A VM that runs on one host while another claims to run it too: ids of the VM, of the host that has it and of the
    ``claimant``."""

    vm: str
    host: str
    claimant: str


class Remark(NamedTuple):
    """Remark about a VM: its id, the ``kind`` of its event (acquisition.link.happenings), ``text``."""

    vm: str
    kind: str
    text: str


class Picture(NamedTuple):
    """All hosts at one tick. ``errors``: what could not be read; hosts may then be missing. ``blind``:
    why no host can be seen; it is then one of the errors."""

    tick: int
    now: float  #: wall clock of the reader, seconds
    hosts: Sequence[Host]
    errors: tuple[str, ...] = ()
    transits: tuple[Transit, ...] = ()
    blind: str = ""
    conflicts: tuple[Conflict, ...] = ()
    remarks: tuple[Remark, ...] = ()
