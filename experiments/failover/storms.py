"""Storms of TLS connections: all hosts connect at once; a shard dies, comes back, ends all connections; all hosts get
another password."""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from acquisition.shards import grants, password_files, rotation
from acquisition.shards.nodes import Members
from acquisition.shards.redis_binary import find
from acquisition.shards.users import write_secret
from experiments import testbed
from experiments.emulation.director import raise_descriptor_limit
from experiments.emulation.emulated_host import EmulatedHost
from experiments.emulation.workload import Workload
from experiments.failover.load import Load
from experiments.failover.pipeline import Pipeline
from experiments.harness import machine, outcome
from experiments.testbed import Node, ReplicatedCluster, Testbed

_LIMIT_SECONDS = 30.0  #: until all hosts send again
_LONGEST = 120.0
_CALM_SECONDS = 3.0
_POSITION_SECONDS = 5.0
_RECEIVED = "total_connections_received"
_MAXMEMORY = 512 << 20  #: of each node: what ten thousand hosts send within two minutes fits
_ASK_SECONDS = 20.0


class Storm(NamedTuple):
    """One of them: ``seconds`` until the last of ``hosts`` had a frame accepted that was made since it began, and the
    ``connections`` that shards which lived were asked for meanwhile, those of the filter among them; ``errors`` of the
    hosts' connections meanwhile, by kind."""

    name: str
    hosts: int
    seconds: float
    connections: int
    errors: dict[str, int]

    @property
    def per_host(self) -> float:
        """Connections of a host."""
        return self.connections / max(1, self.hosts)


def run(argv: list[str], workload: Workload) -> dict[str, Any]:
    """The document of all storms, of as many hosts as the workload has."""
    raise_descriptor_limit()
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardpulse-storms-")))
        bed = stack.enter_context(Testbed(hosts=3))
        clients = {"maxclients": str(4 * workload.hosts + 1000)}
        made = testbed.start_cluster(bed, directory / "nodes", maxmemory_bytes=_MAXMEMORY, directives=clients)
        shards = stack.enter_context(made)
        storms, problems = _storms(stack.enter_context(Pipeline(shards, directory, workload)))
    return _document(argv, storms, problems)


def _storms(pipeline: Pipeline) -> tuple[list[Storm], list[str]]:
    shards = pipeline.shards
    pipeline.start_filter()
    storms = [measured("cold start", shards.nodes, pipeline.begin_load(_POSITION_SECONDS), None)]
    load = pipeline.load
    load.run_for(_CALM_SECONDS)
    master = shards.masters()[0]
    orphans = hosts_of(pipeline, master)
    others = [node for node in shards.nodes if node is not master]
    storms.append(measured("failover", others, load, orphans, lambda: shards.kill(master)))
    shards.revive(master, meanwhile=lambda: load.run_for(0.02))
    load.run_for(_CALM_SECONDS)
    storms.append(measured("return of the shard", shards.nodes, load, orphans, lambda: _fail_back(shards, load)))
    load.run_for(_CALM_SECONDS)
    storms.append(measured("connections ended", shards.nodes, load, orphans, lambda: hang_up(master)))
    load.run_for(_CALM_SECONDS)
    with Members(shards.addresses, shards.access.credentials(grants.KEEPER), _ASK_SECONDS) as members:
        begin_rotation(pipeline, members)
        load.run_for(_CALM_SECONDS)
        rotated = measured("passwords exchanged", shards.nodes, load, None, lambda: finish_rotation(pipeline, members))
    storms.append(rotated)
    return storms, pipeline.problems()


def measured(
    name: str,
    counted: Sequence[Node],
    load: Load,
    hosts: list[EmulatedHost] | None,
    begin: Callable[[], object] = lambda: None,
) -> Storm:
    """Begin it, and work until every host (None: each one) has had a frame accepted that it has made since."""
    chosen = load.hosts if hosts is None else hosts
    before, errors = _received(counted), _errors(load)
    began = time.monotonic()
    begin()
    goals = [(host, host.window.last + 1) for host in chosen]
    waiting = list(goals)

    def is_over() -> bool:
        waiting[:] = [(host, goal) for host, goal in waiting if host.window.acked < goal]
        return not waiting

    load.run_until(is_over, _LONGEST, f"all hosts send after {name}")
    seconds = time.monotonic() - began
    storm = Storm(name, len(chosen), seconds, _received(counted) - before, dict(_errors(load) - errors))
    print(_line(storm), file=sys.stderr, flush=True)
    return storm


def _received(nodes: Sequence[Node]) -> int:
    """The connections that nodes have been asked for, by everybody: hosts, the filter, and this program."""
    found = 0
    for node in nodes:
        with contextlib.suppress(ShardpulseError):
            lines = node.call("INFO", "stats").decode().splitlines()
            found += next(int(line.partition(":")[2]) for line in lines if line.startswith(_RECEIVED))
    return found


def _errors(load: Load) -> Counter[str]:
    """What has ended connections of hosts so far, by kind."""
    found: Counter[str] = Counter()
    for host in load.hosts:
        found.update(host.writer.account()["errors"])
    return found


def hosts_of(pipeline: Pipeline, master: Node) -> list[EmulatedHost]:
    """The emulated hosts whose partitions a master owns."""
    chosen = set(pipeline.hosts_of(master))
    return [host for host in pipeline.load.hosts if host.index in chosen]


def _fail_back(shards: ReplicatedCluster, load: Load) -> None:
    shards.fail_back(meanwhile=lambda: load.run_for(0.02))


def hang_up(node: Node) -> None:
    """Have a shard end the connections of all clients."""
    node.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def begin_rotation(pipeline: Pipeline, members: Members) -> None:
    """As ``shards passwords begin``: a second password of the hosts is valid, and they are given it."""
    coming = password_files.begin(pipeline.shards.access.password_file(grants.PROBE).parent, [grants.PROBE])
    rotation.begin(members, coming)
    write_secret(pipeline.password_file, f"{coming[grants.PROBE]}\n")


def finish_rotation(pipeline: Pipeline, members: Members) -> int:
    """As ``shards passwords finish``: the first password is gone, and with it the hosts' sessions; how many."""
    access = pipeline.shards.access
    directory = access.password_file(grants.PROBE).parent
    coming = password_files.coming(directory, [grants.PROBE])
    sessions = rotation.finish(members, coming)
    password_files.finish(directory, grants.PROBE)
    access.passwords.update(coming)
    for node in pipeline.shards.nodes:
        node.renew_users()
    return sessions


def _document(argv: list[str], storms: list[Storm], problems: list[str]) -> dict[str, Any]:
    figures = {
        "machine": machine.describe(find().version),
        "storms": [
            {**storm._asdict(), "seconds": round(storm.seconds, 2), "per_host": round(storm.per_host, 2)}
            for storm in storms
        ],
    }
    missed = [_line(storm) for storm in storms if storm.seconds > _LIMIT_SECONDS]
    return outcome.document("failover", argv, problems, figures, missed)


def text(document: dict[str, Any]) -> list[str]:
    """A line for each."""
    names = Storm._fields
    return [_line(Storm(*(one[name] for name in names))) for one in document["storms"]]


def _line(storm: Storm) -> str:
    told = f"{storm.name}: {storm.hosts} hosts send after {storm.seconds:.1f} s, {storm.per_host:.2f} connections each"
    errors = ", ".join(f"{count} {kind}" for kind, count in sorted(storm.errors.items()))
    return f"{told}; errors: {errors or 'none'}"
