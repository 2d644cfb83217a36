"""Pipeline of one benchmark run: shards, filters, generators, reader."""

from __future__ import annotations

import contextlib
import json
import os
import random
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import UnavailableError
from acquisition.link.cluster import Cluster
from acquisition.link.trust.credentials import Credentials
from acquisition.model.metric import resource_set_id
from acquisition.outbox.catch_up import OLD
from acquisition.shards.servers import grants
from acquisition.shards.servers.launch import Shards, start_shards
from acquisition.snapshot import SnapshotReader
from experiments.emulation.fleet import Counts
from experiments.emulation.workload import resource_set
from experiments.harness import shard_counts, usage
from experiments.harness.options import Options
from experiments.harness.verification import Verdict, choose_hosts, verify
from experiments.processes import tls_shards
from experiments.processes.control import Child, product, python
from experiments.processes.tls_shards import TlsShards

_READY_SECONDS = 180.0
_ANSWER_SECONDS = 30.0
_CLIENTS_FOR_OTHERS = 512  #: connections to a shard beside those of emulated hosts
_HOSTS_PER_GENERATOR = 15_000
#: Seconds between two readings of a host in the closed loop, of whole writers and of lean hosts: frames not known to be
#: smoothed count as in flight. A hundred whole writers that read ten times a second cost a fifth of the rate.
_CLOSED_LOOP_POSITIONS, _LEAN_POSITIONS = 0.25, 0.1

#: Decision inputs kept by the filter -> its configuration: as shipped, none, and everything for VMs too.
INPUTS = {"shipped": "", "off": "enabled = false\n", "full": 'order_statistics = ["*"]\n'}


class Moment(NamedTuple):
    """All growing counts, read at nearly one moment."""

    offered: Counts
    shards: shard_counts.ShardCounts
    usage: usage.Usage
    shard_seconds: tuple[float, ...]  #: CPU seconds of each shard, in slot order


class Pipeline:
    """Running parts. Built by ``running``, which stops them."""

    def __init__(
        self,
        options: Options,
        shards: Shards | TlsShards,
        cluster: Cluster,
        filters: list[Child],
        generators: list[Child],
        reader: Child,
    ) -> None:
        self.options = options
        self.shards = shards
        self.cluster = cluster
        self.filters = filters
        self.generators = generators
        self.reader = reader

    @property
    def roles(self) -> dict[str, list[int]]:
        """The processes of each role."""
        return {
            "generator": [child.pid for child in self.generators],
            "shards": self.shards.pids,
            "filter": [child.pid for child in self.filters],
            "reader": [self.reader.pid],
        }

    def run(self, seconds: float) -> None:
        """Let the pipeline work for ``seconds``. Raises ChildFailed as soon as a part has ended."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            time.sleep(min(left, 0.5))
            for child in [*self.generators, *self.filters, self.reader]:
                child.check()

    def tell(self, do: str, **order: Any) -> None:
        """Give all generators an order: ``start``, ``mark`` or ``stop``."""
        for child in self.generators:
            child.send({"do": do, **order})

    def measure_freshness(self) -> None:
        """Restart the reader's measurements."""
        self.reader.send({"do": "begin"})

    def freshness(self) -> dict[str, Any]:
        """Figures measured by the reader since then."""
        self.reader.send({"do": "end"})
        return self.reader.receive(_ANSWER_SECONDS)

    def mark(self) -> Moment:
        """Read all counts."""
        offered = self.offered()
        read = usage.read(self.roles)
        each = tuple(usage.cpu_seconds(pid) for pid in self.shards.pids)
        return Moment(offered, shard_counts.read(self.cluster), read, each)

    def offered(self) -> Counts:
        """Counts of frames and samples made by all generators."""
        self.tell("mark")
        return _add([Counts(**child.receive(_ANSWER_SECONDS)) for child in self.generators])

    def finish(self) -> list[dict[str, Any]]:
        """Stop generating and drain; the generators' reports."""
        self.tell("stop")
        return [child.receive(self.options.drain_seconds + _ANSWER_SECONDS) for child in self.generators]

    def verify(self, reports: Sequence[dict[str, Any]]) -> tuple[float, Verdict]:
        """Read everything as ``latest`` and compare it with the scalar model; also returns the duration of that
        reading. ``reports`` are those of ``finish``: they have the times of the chosen hosts' frames."""
        logs = {int(host): times for report in reports for host, times in report["logs"].items()}
        began = time.monotonic()
        blocks = SnapshotReader(self.cluster).latest().blocks
        seconds = round(time.monotonic() - began, 4)
        known, options = {block.host_id: block for block in blocks}, self.options
        hosts = choose_hosts(options.workload, options.check)
        return seconds, verify(known, options.workload, logs, hosts, options.tau)

    def stop_filters(self) -> None:
        """End the filters in order, so that they write their profiles."""
        for child in self.filters:
            child.stop()


@contextlib.contextmanager
def running(options: Options, directory: Path) -> Iterator[Pipeline]:
    """The parts, started and connected: every host's names are known to the filter."""
    with contextlib.ExitStack() as stack:
        shards = _start_shards(options, directory / "shards", stack)
        cluster = shards.connect(timeout=10.0)
        stack.callback(cluster.close)
        addresses = [str(address) for address in shards.addresses]
        config = options.filter_config or _write_config(options, directory, shards)
        filters = [
            stack.enter_context(Child("filter", _filter_command(options, directory, config, addresses, part)))
            for part in range(options.filters)
        ]
        reader = stack.enter_context(Child("freshness reader", python("experiments.harness.freshness")))
        generators = [
            stack.enter_context(Child("generator", python("experiments.emulation.generator"))) for _ in _shares(options)
        ]
        for role, children in (("generator", generators), ("filter", filters)):
            for child in children:
                if role in options.pins:
                    os.sched_setaffinity(child.pid, {options.pins[role]})
        for child, (number, share) in zip(generators, enumerate(_shares(options)), strict=True):
            task = generator_task(options, addresses, share, directory / f"generator-{number}.json")
            child.send(task | {"credentials": _credentials(shards, grants.PROBE)})
        for child in generators:
            child.receive(_READY_SECONDS)
        reader.send(_reader_task(options, addresses) | {"credentials": _credentials(shards, grants.READER)})
        reader.receive(_READY_SECONDS)
        yield Pipeline(options, shards, cluster, filters, generators, reader)


def profiles(options: Options, directory: Path) -> dict[str, Any]:
    """Profiles written by the parts, by role; call after they have ended."""
    found = {}
    for role, count in (("generator", len(_shares(options))), ("filter", options.filters)):
        for number in range(count):
            path = directory / f"{role}-{number}.json"
            if options.profile and path.exists():
                found[f"{role}-{number}" if count > 1 else role] = json.loads(path.read_text())
    return found


def _start_shards(options: Options, directory: Path, stack: contextlib.ExitStack) -> Shards | TlsShards:
    clients = options.hosts + _CLIENTS_FOR_OTHERS
    if options.tls:
        return stack.enter_context(tls_shards.running(options.shards, directory, clients))
    return stack.enter_context(start_shards(options.shards, directory, directives={"maxclients": str(clients)}))


def _credentials(shards: Shards | TlsShards, user: str) -> Credentials:
    return shards.access.credentials(user) if isinstance(shards, TlsShards) else Credentials()


def _write_config(options: Options, directory: Path, shards: Shards | TlsShards) -> str:
    path = directory / "filter.toml"
    chosen = {
        "tau_seconds": options.tau,
        "linger_seconds": options.linger_seconds,
        "retention_seconds": options.retention_seconds,
    }
    lines = [f"{name} = {value}\n" for name, value in chosen.items() if value is not None]
    found = shards.access.section(grants.FILTER, shards.addresses) if isinstance(shards, TlsShards) else ""
    path.write_text("".join([found, "[filter]\n", *lines, "[filter.inputs]\n", INPUTS[options.inputs]]))
    return str(path)


def _filter_command(options: Options, directory: Path, config: str, addresses: Sequence[str], part: int) -> list[str]:
    command = product("filter", config, addresses)
    if not options.profile:
        return command
    interpreter, _, *module = command
    return [interpreter, "-m", "experiments.processes.profiler", str(directory / f"filter-{part}.json"), *module]


def _shares(options: Options) -> list[tuple[int, int]]:
    """Hosts of each generator, as ranges."""
    count = options.generators or -(-options.hosts // _HOSTS_PER_GENERATOR)
    return [(options.hosts * i // count, options.hosts * (i + 1) // count) for i in range(count)]


def generator_task(options: Options, addresses: Sequence[str], share: tuple[int, int], profile: Path) -> dict[str, Any]:
    """The first order of a generator with the hosts of ``share``; ``profile`` is the path of its profile."""
    workload = options.workload
    return {
        "workload": workload._asdict(),
        "shards": list(addresses),
        "hosts": share,
        "lean": options.lean,
        "checked": sorted(set(choose_hosts(workload, options.check))),
        "outstanding": options.outstanding if options.closed_loop else 0,
        "held_frames": options.held_frames,
        "held_seconds": options.held_seconds,
        "position_interval": loop_positions(options) if options.closed_loop else options.position_interval,
        "drain_seconds": options.drain_seconds,
        "joining": round(options.joining_seconds / workload.interval),
        "old_seconds": OLD,
        "credentials": Credentials(),
        "profile": str(profile) if options.profile else None,
    }


def loop_positions(options: Options) -> float:
    """Interval in seconds at which a host of the closed loop reads its position."""
    return _LEAN_POSITIONS if options.lean else _CLOSED_LOOP_POSITIONS


def _reader_task(options: Options, addresses: Sequence[str]) -> dict[str, Any]:
    choice = random.Random(f"reader {options.seed}")
    return {
        "shards": list(addresses),
        "hosts": choice.sample(range(options.hosts), min(options.watched, options.hosts)),
        "resource_set": resource_set_id(resource_set(options.metrics).name),
        "poll_seconds": options.poll_ms / 1000.0,
    }


def _add(counts: Sequence[Counts]) -> Counts:
    if not counts:
        raise UnavailableError("there is no generator")
    return Counts(
        sum(each.frames for each in counts),
        sum(each.samples for each in counts),
        sum(each.missed for each in counts),
        max(each.lag_seconds for each in counts),
    )
