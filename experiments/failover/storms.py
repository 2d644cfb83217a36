"""Storms of TLS connections after shard outages and password changes.

All hosts connect at once; a shard dies, comes back, ends all connections, is full; all hosts get
another password.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acquisition import private_files
from acquisition.errors import ShardpulseError, TemporaryError
from acquisition.shards.commands import passwords_command
from acquisition.shards.servers import grants, password_files
from acquisition.shards.topology.nodes import Members
from experiments import testbed
from experiments.emulation.workload import Workload
from experiments.failover.generators import fitting
from experiments.failover.pipeline import Pipeline
from experiments.harness import machine, outcome, usage
from experiments.testbed import Node, Testbed

_LIMIT_SECONDS = 30.0  #: until all hosts send again
_LONGEST = 120.0
_CALM_SECONDS = 3.0
_POSITION_SECONDS = 5.0
_RECEIVED = "total_connections_received"
_MAXMEMORY = 512 << 20  #: of each node: enough for two minutes of ten thousand hosts
_LIMIT = "maxmemory"
_ASK_SECONDS = 20.0


class Storm(NamedTuple):
    """One storm: ``seconds`` until the last of ``hosts`` had a frame accepted that was made since it began, and the
    ``connections`` requested from live shards meanwhile, including the filter's; ``errors`` of the hosts' connections
    meanwhile, by kind; ``cpu`` seconds of each process, of ``others`` on this machine, and ``stolen`` ones."""

    name: str
    hosts: int
    seconds: float
    connections: int
    errors: dict[str, int]
    cpu: dict[str, float]

    @property
    def per_host(self) -> float:
        """Connections per host."""
        return self.connections / max(1, self.hosts)


def run(argv: list[str], workload: Workload, generators: int) -> dict[str, Any]:
    """Document of all storms, with the hosts of the workload, emulated by ``generators`` processes (0: as fit)."""
    count = generators or fitting(workload.hosts)
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shardpulse-storms-")))
        bed = stack.enter_context(Testbed(hosts=3))
        clients = {"maxclients": str(4 * workload.hosts + 1000)}
        made = testbed.start_cluster(bed, directory / "nodes", maxmemory_bytes=_MAXMEMORY, directives=clients)
        shards = stack.enter_context(made)
        storms, problems = _storms(stack.enter_context(Pipeline(shards, directory, workload)), count)
    return _document(argv, count, storms, problems)


def _storms(pipeline: Pipeline, generators: int) -> tuple[list[Storm], list[str]]:
    shards = pipeline.shards
    pipeline.start_filter()
    pipeline.prepare_generators(generators, _POSITION_SECONDS)
    master = shards.masters()[0]
    orphans = pipeline.hosts_of(master)
    others = [node for node in shards.nodes if node is not master]
    storms = [measured("cold start", pipeline, shards.nodes, None)]
    time.sleep(_CALM_SECONDS)
    storms.append(measured("failover", pipeline, others, orphans, lambda: shards.kill(master)))
    shards.revive(master, _LONGEST)
    time.sleep(_CALM_SECONDS)
    storms.append(measured("return of the shard", pipeline, shards.nodes, orphans, lambda: shards.fail_back(_LONGEST)))
    time.sleep(_CALM_SECONDS)
    storms.append(measured("connections ended", pipeline, shards.nodes, orphans, lambda: hang_up(master)))
    time.sleep(_CALM_SECONDS)
    full_seconds = pipeline.workload.interval + _CALM_SECONDS
    storms.append(measured("full shard", pipeline, shards.nodes, orphans, lambda: fill(master, full_seconds)))
    time.sleep(_CALM_SECONDS)
    with Members(shards.addresses, shards.access.credentials(grants.KEEPER), _ASK_SECONDS) as members:
        begin_rotation(pipeline, members)
        time.sleep(_CALM_SECONDS)
        storms.append(
            measured("passwords exchanged", pipeline, shards.nodes, None, lambda: finish_rotation(pipeline, members))
        )
    return storms, pipeline.problems()


def measured(
    name: str,
    pipeline: Pipeline,
    counted: Sequence[Node],
    hosts: Sequence[int] | None,
    begin: Callable[[], object] = lambda: None,
) -> Storm:
    """Begin a storm, and wait until every host (None: each one) has had a frame accepted that it made since. Raises
    TemporaryError with the activity of processes if that takes too long.
    """
    generators = pipeline.generators
    roles = pipeline.roles(counted)
    connections, before = _received(counted), usage.read(roles)
    errors = generators.errors()
    began = time.monotonic()
    begin()
    try:
        seconds = generators.watch(hosts, _LONGEST, f"all hosts send after {name}") - began
    except TemporaryError as error:
        raise TemporaryError(f"{error}; {_spent_in_words(_spent(before, usage.read(roles)))}") from error
    spent = _spent(before, usage.read(roles))
    concerned = pipeline.workload.hosts if hosts is None else len(hosts)
    new = dict(generators.errors() - errors)
    storm = Storm(name, concerned, seconds, _received(counted) - connections, new, spent)
    print("\n".join(_lines(storm)), file=sys.stderr, flush=True)
    return storm


def _received(nodes: Sequence[Node]) -> int:
    """Connections requested from nodes by all clients: hosts, the filter, and this program."""
    return sum(map(_received_by, nodes))


def _received_by(node: Node) -> int:
    lines = _call(node, "INFO", "stats").decode().splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith(_RECEIVED))


def _call(node: Node, *command: str) -> Any:
    """One command to a shard that may be busy with handshakes. Raises ShardpulseError."""
    deadline = time.monotonic() + _ASK_SECONDS
    while True:
        try:
            return node.call(*command)
        except ShardpulseError:
            if time.monotonic() > deadline:
                raise


def _spent(before: usage.Usage, after: usage.Usage) -> dict[str, float]:
    return {role: round(seconds, 2) for role, seconds in usage.spent(before, after).items()}


def hang_up(node: Node) -> None:
    """Have a shard end the connections of all clients."""
    _call(node, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")


def fill(node: Node, seconds: float) -> None:
    """Have a shard refuse commands that take memory for this time."""
    _, limit = _call(node, "CONFIG", "GET", _LIMIT)
    _call(node, "CONFIG", "SET", _LIMIT, "1")
    time.sleep(seconds)
    _call(node, "CONFIG", "SET", _LIMIT, limit.decode())


def begin_rotation(pipeline: Pipeline, members: Members) -> None:
    """As ``shards passwords begin``: a second password of the hosts becomes valid, and they receive it."""
    coming = password_files.begin(pipeline.shards.access.password_file(grants.PROBE).parent, [grants.PROBE])
    passwords_command.begin_rotation(members, coming)
    private_files.write(pipeline.password_file, f"{coming[grants.PROBE]}\n", replace=True)


def finish_rotation(pipeline: Pipeline, members: Members) -> int:
    """As ``shards passwords finish``: the first password is removed, and with it the hosts' sessions; their number."""
    access = pipeline.shards.access
    directory = access.password_file(grants.PROBE).parent
    coming = password_files.coming(directory, [grants.PROBE])
    sessions = passwords_command.finish_rotation(members, coming)
    password_files.finish(directory, grants.PROBE)
    access.passwords.update(coming)
    for node in pipeline.shards.nodes:
        node.renew_users()
    return sessions


def _document(argv: list[str], generators: int, storms: list[Storm], problems: list[str]) -> dict[str, Any]:
    figures = {
        "machine": machine.describe(),
        "generators": generators,
        "storms": [
            {**storm._asdict(), "seconds": round(storm.seconds, 2), "per_host": round(storm.per_host, 2)}
            for storm in storms
        ],
    }
    missed = [_lines(storm)[0] for storm in storms if storm.seconds > _LIMIT_SECONDS]
    return outcome.document("failover", argv, problems, figures, missed)


def text(document: dict[str, Any]) -> list[str]:
    """Two lines for each."""
    names = Storm._fields
    return [line for one in document["storms"] for line in _lines(Storm(*(one[name] for name in names)))]


def _lines(storm: Storm) -> tuple[str, str]:
    told = f"{storm.name}: {storm.hosts} hosts send after {storm.seconds:.1f} s, {storm.per_host:.2f} connections each"
    errors = ", ".join(f"{count} {kind}" for kind, count in sorted(storm.errors.items()))
    return f"{told}; errors: {errors or 'none'}", f"  {_spent_in_words(storm.cpu)}"


def _spent_in_words(cpu: dict[str, float]) -> str:
    return f"CPU seconds: {', '.join(f'{role} {seconds:.1f}' for role, seconds in cpu.items())}"
