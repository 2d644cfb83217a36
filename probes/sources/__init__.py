"""Sources of monitor modules, one file each.

New source: one file with a ``create(request) -> Source``, one line in REGISTRY, one fixture, one test; then it is
available as ``[probe.SET] source``. Only the sources a host uses are imported: each costs memory in every probe.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:  # probes.sampling.procfs, which these import, loads the compiled step of this package first
    from acquisition.model.metric import ResourceSet
    from probes.processes.discovery import Discovery
    from probes.sampling.host_facts import HostFacts
    from probes.sampling.reading import Reading


class Registered(NamedTuple):
    """``module`` has ``create``. ``blocks``: a library it calls may hang, so it runs in a child process; such
    a source is polled."""

    module: str
    blocks: bool = False


#: (resource set, source) -> its module
REGISTRY: dict[tuple[str, str], Registered] = {
    ("host", "procfs"): Registered("probes.sources.procfs_host"),
    ("host", "vmstat"): Registered("probes.sources.vmstat_child"),
    ("processes", "procfs"): Registered("probes.sources.procfs_processes"),
    ("processes", "pidstat"): Registered("probes.sources.pidstat_child"),
    ("vms", "procfs"): Registered("probes.sources.procfs_vms"),
    ("cores", "procfs"): Registered("probes.sources.cores"),
    ("numa_nodes", "procfs"): Registered("probes.sources.numa_nodes"),
    ("interfaces", "procfs"): Registered("probes.sources.interfaces"),
    ("filesystems", "procfs"): Registered("probes.sources.filesystems", blocks=True),  # a server may not answer
    ("storage", "fio"): Registered("probes.sources.storage", blocks=True),
}
#: Replacement for a tool that is not installed or cannot keep the interval.
FALLBACK = "procfs"
_IN_CHILD = "probes.sources.in_child"


class Source(Protocol):
    """Reads one resource set. A source is either polled (``sample`` reads) or free-running:
    a tool that prints at its own pace, with output processed by ``service``.

    ``name`` is shown in tables; ``free_running`` is the kind. No
    method blocks for longer than reading /proc takes, and none raises because of the
    behaviour of the sampled machine.

    A polled source may have another method, ``glance() -> bool``: called between two ticks, it returns whether entities
    have come or gone since the newest reading, so that they are read at once.
    """

    name: str
    free_running: bool

    def sample(self, wall: float, monotonic: float) -> Reading | None:
        """Reading of the due tick; None from a free-running source."""

    def filenos(self) -> list[int]:
        """Descriptors for which ``service`` must be called when they are readable."""

    def wake_at(self) -> float:
        """Monotonic time at which ``service`` must be called in any case; inf: never."""

    def service(self, wall: float, monotonic: float, ready: Collection[int]) -> Reading | None:
        """Process available data (``ready``: readable descriptors); returns the reading completed by it."""

    def timed_out(self, wall: float, monotonic: float) -> Reading | None:
        """The known entities with every sample TIMEOUT: the result of a tick without an answer."""

    def account(self) -> dict[str, object]:
        """Figures about the source itself, for the probe's status."""

    def close(self) -> None:
        """Stop children, close files."""


class Polled:
    """Base of sources whose ``sample`` reads on demand."""

    free_running = False

    def filenos(self) -> list[int]:
        """No descriptors to wait for."""
        return []

    def wake_at(self) -> float:
        """Never."""
        return float("inf")

    def service(self, wall: float, monotonic: float, ready: Collection[int]) -> Reading | None:
        """Nothing arrives by itself."""
        del wall, monotonic, ready
        return None

    def timed_out(self, wall: float, monotonic: float) -> Reading | None:
        """A read of /proc cannot be interrupted, so it never times out by itself."""
        del wall, monotonic
        return None


class Request(NamedTuple):
    """Request for a source. ``report`` takes one line for the operator, at most once per cause; ``options`` are those
    of the source in ``[probe.SET]``."""

    resource_set: ResourceSet
    interval: float
    facts: HostFacts
    discovery: Discovery
    report: Callable[[str], None]
    options: Mapping[str, Any] = {}


def create(name: str, request: Request) -> Source:
    """The source ``name`` for the request; FALLBACK, with a report, if it cannot work here.

    Raises KeyError for a source unknown to the resource set.
    """
    module, blocks = REGISTRY[request.resource_set.name, name]
    source: Source | None
    if blocks:
        source = import_module(_IN_CHILD).SourceInChild(name, module, request)
    else:
        source = import_module(module).create(request)
    if source is not None:
        return source
    fallback: Source = import_module(REGISTRY[request.resource_set.name, FALLBACK].module).create(request)
    return fallback
