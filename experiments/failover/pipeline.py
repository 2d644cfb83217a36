"""Pipeline of a failover run: load, filters, replicated shards, final check."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, Self

from acquisition import private_files
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.servers import grants
from acquisition.snapshot import SnapshotReader
from acquisition.wire import keys
from experiments.emulation.workload import Workload, host_number
from experiments.failover.generators import Generators
from experiments.failover.load import Load
from experiments.harness import balance
from experiments.harness.verification import verify
from experiments.processes.control import Child, product
from experiments.testbed import Host, Node, ReplicatedCluster

_TAU = 5.0
_CONNECT_SECONDS = 30.0
_SETTLE_SECONDS = 30.0


class Hosts(Protocol):
    """Emulated hosts, in this process or in others."""

    @property
    def samples(self) -> int:
        """Number of samples made."""

    def settle(self, seconds: float) -> None:
        """Stop sampling and work until the filter has applied everything. Raises ShardpulseError."""

    def logs(self) -> Mapping[int, Sequence[float]]:
        """Monotonic times of all frames by host index."""


class Pipeline:
    """A context manager that ends the parts it started; the cluster is the caller's. ``load`` are the hosts of
    ``start_load``, ``generators`` those of ``prepare_generators``."""

    def __init__(self, shards: ReplicatedCluster, directory: Path, workload: Workload) -> None:
        self.shards = shards
        self.workload = workload
        self._config = directory / "filter.toml"
        self._config.write_text(f"[filter]\ntau_seconds = {_TAU}\n{shards.section(grants.FILTER)}")
        self.password_file = directory / "probe.password"  #: that of hosts, as on each of them
        private_files.write(self.password_file, f"{shards.access.passwords[grants.PROBE]}\n", replace=True)
        self._stack = contextlib.ExitStack()
        self.cluster: Cluster = shards.connect()
        self._stack.callback(self.cluster.close)
        self.layout = read_layout(self.cluster)
        self.load: Load
        self.generators: Generators
        self._hosts: Hosts
        self._filters: list[Child] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_filter(self, place: Host | None = None) -> Child:
        """``shardpulse filter`` as a process, on a host of the testbed or on that of this process."""
        with place.inside() if place is not None else contextlib.nullcontext():
            child = Child("filter", product("filter", self._config, self.shards.addresses))
        self._filters.append(self._stack.enter_context(child))
        return child

    def start_load(self, hosts: Sequence[int] = (), places: dict[int, Host] | None = None) -> Load:
        """Start emulated hosts (all of the workload by default); returns when the filter has applied a frame of
        each."""
        self._hosts = self.load = Load(
            self.workload, self.shards.addresses, hosts or range(self.workload.hosts), self._credentials(), places
        )
        self._stack.callback(self.load.close)
        self.load.run_until(
            lambda: all(host.made and host.made + 1 > host.waiting() for host in self.load.hosts),
            _CONNECT_SECONDS,
            "the first frames are applied",
        )
        return self.load

    def prepare_generators(self, count: int, position_interval: float) -> Generators:
        """Create all emulated hosts in ``count`` processes, without connecting yet. Raises ChildFailed."""
        seeds = [node.address for node in self.shards.masters()]  # in the order of their slots, as site.yml names them
        made = Generators(count, self.workload, seeds, self._credentials(), position_interval)
        self._hosts = self.generators = self._stack.enter_context(made)
        made.prepare()
        return made

    def roles(self, nodes: Sequence[Node]) -> dict[str, list[int]]:
        """Process ids of generators, filters and these nodes."""
        filters = {"filter": [child.pid for child in self._filters]}
        return self.generators.roles() | filters | {node.name: [node.shard.pid] for node in nodes}

    def hosts_of(self, node: Node) -> list[int]:
        """Indexes of the emulated hosts in partitions of a master."""
        indexes = range(self.workload.hosts)
        return [index for index in indexes if self._owner(index) == node.address]

    def problems(self) -> list[str]:
        """Stop sampling, wait until everything is applied, then compare the counts with the samples made and the
        smoothed state of every host with the scalar model. Empty if all is well. Raises ShardpulseError if not
        everything is applied in time.
        """
        self._hosts.settle(_SETTLE_SECONDS)
        with contextlib.closing(self.shards.connect()) as cluster:
            figures = balance.balance(balance.read(cluster), self._hosts.samples)
            snapshot = SnapshotReader(cluster).latest()
        found = balance.problems(figures, overload=False)
        blocks = {block.host_id: block for block in snapshot.blocks}
        logs = self._hosts.logs()
        verdict = verify(blocks, self.workload, logs, 2 * list(logs), _TAU)
        if verdict.mismatches:
            found += [f"{verdict.mismatches} of {verdict.samples} samples differ from the model", *verdict.examples[:5]]
        return found

    def _credentials(self) -> Credentials:
        return self.shards.access.credentials(grants.PROBE)._replace(password_file=str(self.password_file))

    def _owner(self, index: int) -> object:
        return self.cluster.owner(keys.raw(self.layout.tag_of(host_number(index))))
