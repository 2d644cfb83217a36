"""Cluster on a testbed: no host has a master and its own replica.

::

    host 0: master 0, replica of 2      host 1: master 1, replica of 0      host 2: master 2, replica of 1
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Self

from acquisition.errors import CannotCreateError, ShardError, ShardpulseError, UnavailableError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import write_layout
from acquisition.link.resp import Address
from acquisition.shards.servers import grants, machine
from acquisition.shards.servers.redis_binary import find
from acquisition.shards.topology import join
from acquisition.wire.layout import Layout
from experiments.processes import access
from experiments.processes.access import Access
from experiments.processes.waiting import eventually, pause
from experiments.testbed.network import Host, Testbed
from experiments.testbed.node import Node
from experiments.testbed.view import ClusterView

NODE_TIMEOUT = 2.0  #: seconds without an answer after which a master counts as failed
_FIRST_PORT = 7000
_SETTLE_SECONDS = 30.0
_DIRECTIVES = {"cluster-node-timeout": str(int(NODE_TIMEOUT * 1000))}


class ReplicatedCluster:
    """Running nodes; a context manager that ends them. ``nodes`` are first ``masters`` masters, then replicas;
    ``access`` has the credentials of all users."""

    def __init__(self, nodes: Sequence[Node], masters: int, access: Access) -> None:
        self.nodes = list(nodes)
        self.access = access
        self._leaders = self.nodes[:masters]

    @property
    def addresses(self) -> list[Address]:
        """Addresses of all nodes: seeds for probes and filters."""
        return [node.address for node in self.nodes]

    def connect(self, timeout: float = 2.0, user: str = grants.READER) -> Cluster:
        """A new Cluster, closed by the caller."""
        return Cluster(self.addresses, self.access.credentials(user), timeout)

    def section(self, user: str, more: str = "") -> str:
        """The table [shards] of a part's configuration, with ``more`` lines in it."""
        return self.access.section(user, self.addresses, more)

    def masters(self) -> list[Node]:
        """Current owners of slots, including dead ones before a takeover, by the newest view. Raises ShardError if no
        node answers."""
        owners = self._newest_view().owners
        return [node for node in self.nodes if node.node_id in owners]

    def replicas_of(self, master: Node) -> list[Node]:
        """The living replicas of a master, by the view of each of them; those that do not answer by the newest view.
        Raises ShardError if no node answers."""
        names = self._newest_view().replicas_of(master.node_id)
        return [node for node in self.nodes if node.alive and self._follows(node, master, node.node_id in names)]

    def kill(self, node: Node) -> None:
        """kill -9."""
        node.kill()

    def revive(self, node: Node, seconds: float = _SETTLE_SECONDS, meanwhile: Callable[[], None] = pause) -> None:
        """Start a dead node again, empty, at its old place, and wait until it has joined.

        A master with replicas is not started before one of them has taken over: it comes back empty and they would
        empty themselves to match. Then it becomes a replica of the new master by itself and this waits for its
        synchronization. A master without replicas owns its slots as before. ``meanwhile`` is called repeatedly while
        this waits. Raises TemporaryError if that does not happen within ``seconds``, ShardError if it does not start.
        """
        if node.alive:
            return
        deadline = time.monotonic() + seconds
        if node in self.masters() and self.replicas_of(node):
            eventually(lambda: node not in self.masters(), seconds, f"no replica of {node} takes over", meanwhile)
        replica = node not in self.masters()
        node.start()
        if replica:
            problem = f"{node} does not synchronize with the new master"
            eventually(node.in_sync, deadline - time.monotonic(), problem, meanwhile)
        self.wait_healthy(deadline - time.monotonic(), meanwhile)

    def wait_healthy(self, seconds: float = _SETTLE_SECONDS, meanwhile: Callable[[], None] = pause) -> None:
        """Wait until all living nodes see all slots served, and every replica has its master's data: otherwise it would
        not take over. Raises TemporaryError."""
        eventually(self._is_healthy, seconds, "the cluster does not settle", meanwhile)

    def fail_back(self, seconds: float = _SETTLE_SECONDS, meanwhile: Callable[[], None] = pause) -> None:
        """Restore the initial masters: after takeovers one host may have more than half of the masters, and if that one
        fails no node can take over. All nodes must be alive.

        They do not ask for votes, which they would not get for seconds after another election (CLUSTER
        FAILOVER TAKEOVER); writes acknowledged by their masters in the meantime are lost. Raises TemporaryError.
        """
        deadline = time.monotonic() + seconds
        self.wait_healthy(seconds, meanwhile)
        for node in self._leaders:
            if node not in self.masters():
                node.call("CLUSTER", "FAILOVER", "TAKEOVER")
        left = deadline - time.monotonic()
        eventually(lambda: self.masters() == self._leaders, left, "the first masters do not take over", meanwhile)
        self.wait_healthy(deadline - time.monotonic(), meanwhile)

    def stop(self) -> None:
        """End all nodes and remove their files; calling it again is harmless."""
        for node in self.nodes:
            node.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _follows(self, node: Node, master: Node, supposed: bool) -> bool:
        try:
            return node.view().myself.master == master.node_id
        except ShardpulseError:
            return supposed

    def _newest_view(self) -> ClusterView:
        views = []
        for node in self.nodes:
            if node.alive:
                try:
                    views.append(node.view())
                except ShardpulseError:  # it is loading, is frozen, or has just died
                    continue
        if not views:
            raise ShardError("no node of the cluster answers")
        return max(views, key=lambda view: view.epoch)

    def _is_healthy(self) -> bool:
        alive = [node for node in self.nodes if node.alive]
        owners = {node.node_id for node in self.masters()}
        for node in alive:
            facts = node.call("CLUSTER", "INFO").decode().split()
            if "cluster_state:ok" not in facts or "cluster_slots_ok:16384" not in facts:
                return False
            if node.node_id not in owners and not node.in_sync():
                return False
        return True


def start_cluster(
    testbed: Testbed,
    directory: Path | str,
    masters: int = 3,
    replicas: int = 1,
    maxmemory_bytes: int = 64 << 20,
    directives: Mapping[str, str] | None = None,
    layout: Layout | None = None,
) -> ReplicatedCluster:
    """Start ``masters`` with ``replicas`` each on the hosts of ``testbed`` in turn, every node pinned to one
    of this process's cores, join them, write the layout; returns when every replica is in sync.

    ``directives`` add to the configuration of each redis-server. Raises CannotCreateError (fewer hosts than copies of
    the data, directory), UnavailableError (no server with TLS), ShardError, TemporaryError; then nothing is left over.
    """
    hosts = len(testbed.hosts)
    if replicas >= hosts:
        raise CannotCreateError(f"{replicas} replicas beside each master need more than {hosts} hosts")
    if lack := access.missing():
        raise UnavailableError(lack)
    known = access.make(Path(directory).absolute() / "access")
    cores = machine.cores()
    apart = masters if hosts >= masters * (replicas + 1) else 1  # with enough hosts, each node has one to itself
    places = [(f"master{number}", number % hosts) for number in range(masters)]
    for copy in range(1, replicas + 1):
        places += [(f"replica{number}-{copy}", (number + copy * apart) % hosts) for number in range(masters)]
    nodes = []
    for number, (name, place) in enumerate(places):
        host = testbed.hosts[place]
        address = Address(host.address, _FIRST_PORT + number)
        home = Path(directory).absolute() / name
        options = _DIRECTIVES | dict(directives or {})
        core = cores[number % len(cores)]
        nodes.append(Node(name, host, address, core, home, maxmemory_bytes, options, find(), known))
    cluster = ReplicatedCluster(nodes, masters, known)
    try:
        _form(cluster, masters, layout or Layout())
    except BaseException:
        cluster.stop()
        raise
    return cluster


def outsider(host: Host, directory: Path | str, port: int, maxmemory_bytes: int, access: Access) -> Node:
    """A node on ``host``, not started and in no cluster yet. Raises as ``start_cluster``."""
    home = Path(directory).absolute()
    address = Address(host.address, port)
    return Node(home.name, host, address, machine.cores()[0], home, maxmemory_bytes, _DIRECTIVES, find(), access)


def _form(cluster: ReplicatedCluster, masters: int, layout: Layout) -> None:
    for node in cluster.nodes:
        node.start()
    leaders, followers = cluster.nodes[:masters], cluster.nodes[masters:]
    operator = cluster.access.credentials(grants.OPERATOR)
    join.form([node.address for node in leaders], credentials=operator)
    for number, node in enumerate(followers):
        join.introduce(node.address, [leader.address for leader in leaders], serving=False, credentials=operator)
        node.call("CLUSTER", "REPLICATE", leaders[number % masters].node_id)
    cluster.wait_healthy()
    with closing(cluster.connect(user=grants.OPERATOR)) as connected:
        write_layout(connected, *layout)
