"""Load, filter processes and shards with replicas, and the question whether they agree in the end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from acquisition.link.cluster import Cluster, read_layout
from acquisition.shards import grants
from acquisition.shards.users import write_secret
from acquisition.snapshot import SnapshotReader
from acquisition.wire import keys
from experiments.emulation.workload import Workload, host_number
from experiments.failover.load import POSITION_SECONDS, Load
from experiments.harness import balance
from experiments.harness.verification import verify
from experiments.processes.control import Child, product
from experiments.testbed import Host, Node, ReplicatedCluster

_TAU = 5.0
_CONNECT_SECONDS = 30.0
_SETTLE_SECONDS = 30.0


class Pipeline:
    """A context manager that ends what it started; the cluster is the caller's."""

    def __init__(self, shards: ReplicatedCluster, directory: Path, workload: Workload) -> None:
        self.shards = shards
        self.workload = workload
        self._config = directory / "filter.toml"
        self._config.write_text(f"[filter]\ntau_seconds = {_TAU}\n{shards.section(grants.FILTER)}")
        self.password_file = directory / "probe.password"  #: that of hosts, as on each of them
        write_secret(self.password_file, f"{shards.access.passwords[grants.PROBE]}\n")
        self._stack = contextlib.ExitStack()
        self.cluster: Cluster = shards.connect()
        self._stack.callback(self.cluster.close)
        self.layout = read_layout(self.cluster)
        self.load: Load

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def start_filter(self, place: Host | None = None) -> Child:
        """``shardpulse filter`` as a process, on a host of the testbed or where this process is."""
        with place.inside() if place is not None else contextlib.nullcontext():
            return self._stack.enter_context(Child("filter", product("filter", self._config, self.shards.addresses)))

    def start_load(self, hosts: Sequence[int] = (), places: dict[int, Host] | None = None) -> Load:
        """Emulated hosts (all of the workload by default); returns when the filter has applied a frame of each."""
        self._make_load(hosts or range(self.workload.hosts), places)
        self.load.run_until(
            lambda: all(host.made and host.made + 1 > host.waiting() for host in self.load.hosts),
            _CONNECT_SECONDS,
            "the first frames are applied",
        )
        return self.load

    def begin_load(self, position_interval: float) -> Load:
        """All emulated hosts, none of which has connected yet."""
        return self._make_load(range(self.workload.hosts), None, position_interval)

    def _make_load(
        self, hosts: Sequence[int], places: dict[int, Host] | None, position_interval: float = POSITION_SECONDS
    ) -> Load:
        known = self.shards.access.credentials(grants.PROBE)
        credentials = known._replace(password_file=str(self.password_file))
        self.load = Load(self.workload, self.shards.addresses, hosts, credentials, places, position_interval)
        self._stack.callback(self.load.close)
        return self.load

    def hosts_of(self, node: Node) -> list[int]:
        """The indexes of the emulated hosts whose partitions a master owns."""
        indexes = range(self.workload.hosts)
        return [index for index in indexes if self._owner(index) == node.address]

    def problems(self) -> list[str]:
        """Stop sampling, wait until everything is applied, then compare the books with what was made and the
        smoothed state of every host with the scalar model. Empty when all is well.

        Raises TemporaryError when not everything is applied in time.
        """
        self.load.settle(_SETTLE_SECONDS)
        with contextlib.closing(self.shards.connect()) as cluster:
            figures = balance.balance(balance.read(cluster), self.load.samples)
            snapshot = SnapshotReader(cluster).latest()
        found = balance.problems(figures, overload=False)
        blocks = {block.host_id: block for block in snapshot.blocks}
        verdict = verify(blocks, self.workload, self.load.logs(), 2 * [host.index for host in self.load.hosts], _TAU)
        if verdict.mismatches:
            found += [f"{verdict.mismatches} of {verdict.samples} samples differ from the model", *verdict.examples[:5]]
        return found

    def _owner(self, index: int) -> object:
        return self.cluster.owner(keys.raw(self.layout.tag_of(host_number(index))))
