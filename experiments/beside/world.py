"""World of the comparison: trees, hosts, three Prometheus servers, shardpulse.

shardpulse has one shard, filter and service.

::

    store (a network namespace): Prometheus a, b, c; shard, filter, serve
    host N: exporters in one namespace, probe in another, both on the tree ROOT/N
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import UnavailableError
from acquisition.shards.servers import grants
from experiments.beside.answers import OUTCOMES, Answer, Answers, of_shardpulse
from experiments.beside.hosts import Host, together
from experiments.beside.prometheus import FASTEST, SETTINGS, Prometheus, fetch
from experiments.beside.script import Plan, Stage
from experiments.processes.control import Child, product, python
from experiments.processes.waiting import eventually
from experiments.testbed import Host as Place
from experiments.testbed import ReplicatedCluster, Testbed, start_cluster

OURS = "d: shardpulse"
_READY_SECONDS = 120.0
_SERVE_PORT, _FIRST_PORT = 7680, 9090
_HOT = f"/v1/hot?outcome={','.join(OUTCOMES)}"
_VMS = "/v1/snapshot?set=vms&metric=cpu_ratio&fields=mean"


class World(NamedTuple):
    """All running parts. ``stage`` has the true load."""

    stage: Stage
    trees: Child
    hosts: list[Host]
    servers: list[Prometheus]
    cluster: ReplicatedCluster
    filter: Child
    service: Child
    store: Place

    def plan(self, plan: Plan) -> None:
        """Schedule these events."""
        self.stage.take(plan)
        self.trees.send({"do": "plan", "plan": plan})

    def ask(self) -> dict[str, Answers]:
        """Current answers of every system, by column."""
        with self.store.inside():
            found: dict[str, Answers] = {}
            for server in self.servers:
                found.update(server.ask())
            return {**found, OURS: self._ask_ours()}

    def roles(self) -> Mapping[str, list[int]]:
        """Processes by role."""
        return {
            "exporters": together(self.hosts, "node", "process"),
            "probes": together(self.hosts, "probe"),
            **{f"Prometheus {server.setting.name}": [server.pid] for server in self.servers},
            "shard, filter, service": [
                *(node.shard.pid for node in self.cluster.nodes), self.filter.pid, self.service.pid,
            ],
        }  # fmt: skip

    def wait(self) -> None:
        """Wait until the quick systems have answers for every host and VM; the others need three scrapes, which fit in
        the warm-up. Raises UnavailableError."""
        names = {f"{kind}-{host.number}" for host in self.hosts for kind in ("host", "vm")}
        lacking: dict[str, set[str]] = {}

        def complete() -> bool:
            answers = self.ask()
            lacking.update({system: names - answers[system].keys() for system in (FASTEST, OURS)})
            return not any(lacking.values())

        def problem() -> str:
            said = [f"{system} lacks {', '.join(sorted(what))}" for system, what in lacking.items() if what]
            return f"no answers within {_READY_SECONDS:g} s: {'; '.join(said)}"

        eventually(complete, _READY_SECONDS, problem, error=UnavailableError)

    def _ask_ours(self) -> dict[str, Answer]:
        hot, snapshot = fetch(_SERVE_PORT, _HOT), fetch(_SERVE_PORT, _VMS)
        return of_shardpulse(hot or {}, snapshot or {"blocks": []})


@contextlib.contextmanager
def running(count: int, seed: int) -> Iterator[World]:
    """All parts with ``count`` hosts, started and answering. Raises ShardpulseError."""
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardpulse-beside-")))
        roots = Path(tempfile.mkdtemp(prefix="shardpulse-beside-", dir="/dev/shm"))
        stack.callback(shutil.rmtree, roots, ignore_errors=True)
        trees = stack.enter_context(Child("trees", python("experiments.beside.trees")))
        trees.send({"root": str(roots), "hosts": count, "seed": seed})
        bed = stack.enter_context(Testbed(1))
        (store,) = bed.hosts
        cluster = stack.enter_context(start_cluster(bed, directory / "shards", 1, 0))
        serve = f'[serve]\nbind = "127.0.0.1:{_SERVE_PORT}"\n{cluster.section(grants.SERVE)}'
        smoothing = stack.enter_context(_part("filter", cluster.section(grants.FILTER), directory, cluster, store))
        service = stack.enter_context(_part("serve", serve, directory, cluster, store))
        trees.receive(_READY_SECONDS)
        hosts = stack.enter_context(_hosts(count, bed, roots, directory, cluster))
        servers = stack.enter_context(_servers(store, {host.name: host.address for host in hosts}, directory))
        world = World(Stage(count), trees, hosts, servers, cluster, smoothing, service, store)
        try:
            world.wait()
        except UnavailableError:
            _show_logs(directory)
            raise
        yield world


def _part(command: str, config: str, directory: Path, cluster: ReplicatedCluster, store: Place) -> Child:
    file = directory / f"{command}.toml"
    file.write_text(config)
    with (directory / f"{command}.log").open("wb") as log, store.inside():
        return Child(command, product(command, file, cluster.addresses), stdout=log, stderr=log)


@contextlib.contextmanager
def _hosts(count: int, bed: Testbed, roots: Path, directory: Path, cluster: ReplicatedCluster) -> Iterator[list[Host]]:
    hosts: list[Host] = []
    with contextlib.ExitStack() as stack:
        for number in range(count):
            places = bed.add_host(), bed.add_host()
            hosts.append(Host(number, places, roots / str(number), directory, cluster.section(grants.PROBE)))
            stack.callback(hosts[-1].kill)
            hosts[-1].start()
        yield hosts


@contextlib.contextmanager
def _servers(store: Place, targets: Mapping[str, str], directory: Path) -> Iterator[list[Prometheus]]:
    servers: list[Prometheus] = []
    with contextlib.ExitStack() as stack:
        for number, setting in enumerate(SETTINGS):
            home = directory / f"prometheus-{setting.name}"
            servers.append(Prometheus(setting, store, _FIRST_PORT + number, targets, home))
            stack.callback(servers[-1].stop)
            servers[-1].start()
        yield servers


def _show_logs(directory: Path) -> None:
    """Print the ends of all logs, which are removed with the directory."""
    for log in sorted(directory.glob("*.log")):
        sys.stderr.write(f"{log.name}:\n{log.read_text(errors='replace')[-500:]}\n")
