"""Product as shipped, as a system under test: a real probe or emulated hosts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import start_shards
from experiments.harness import pipeline, shard_counts
from experiments.harness.options import Options
from experiments.paper.figure import SHARDPULSE
from experiments.paper.systems import DATABASE, FILTER, PROBE, Load, System
from experiments.processes.control import Child, product
from probes.metrics import HOST, PROCESSES

_MEMORY = 1 << 30  #: of the shard of a real probe
_LEAN = 5000  #: hosts from which the emulated ones keep no frames, as they share the cores with the measured pipeline
#: Forks N processes that sleep until its standard input ends, and prints their ids.
_SLEEPERS = """
import os, sys
pids = []
for _ in range(int(sys.argv[1])):
    if not (pid := os.fork()):
        os.read(0, 1)
        os._exit(0)
    pids.append(pid)
print(*pids, flush=True)
os.read(0, 1)
"""


@contextmanager
def real(load: Load, directory: Path) -> Iterator[System]:
    """One probe of this host. Its resource sets are the host itself if ``load.sets`` is 1, else as many processes,
    watched as by ``pidstat``; ``load.metrics`` of each."""
    with ExitStack() as stack:
        pids = stack.enter_context(_sleepers(load.sets)) if load.sets > 1 else []
        shards = stack.enter_context(start_shards(1, directory / "shards", maxmemory_bytes=_MEMORY))
        cluster = stack.enter_context(closing(shards.connect(timeout=10.0)))
        for name, text in (("filter", "[filter]\n"), ("probe", _configuration(load, pids, directory))):
            (directory / f"{name}.toml").write_text(text)
        log = stack.enter_context((directory / "log").open("wb"))
        started = {
            name: stack.enter_context(
                Child(name, product(name, directory / f"{name}.toml", shards.addresses), stderr=log)
            )
            for name in ("filter", "probe")
        }
        roles = {PROBE: [started["probe"].pid], DATABASE: shards.pids, FILTER: [started["filter"].pid]}
        yield System(SHARDPULSE, roles, lambda: _applied(cluster), directory / "log")


@contextmanager
def emulated(load: Load, directory: Path) -> Iterator[System]:
    """Hosts with the product's own writer, all in one process, with one shard."""
    options = Options(
        hosts=load.hosts,
        entities=load.sets,
        metrics=load.metrics,
        rate=1.0 / load.interval,
        shards=1,
        lean=load.hosts > _LEAN,
        churn=0.0,
    )
    with pipeline.running(options, directory) as parts:
        parts.tell("start")
        roles = parts.roles
        named = {PROBE: roles["generator"], DATABASE: roles["shards"], FILTER: roles["filter"]}
        yield System(SHARDPULSE, named, lambda: _applied(parts.cluster), made=lambda: parts.offered().samples)


def _applied(cluster: Cluster) -> float:
    return shard_counts.read(cluster).applied


def _configuration(load: Load, pids: Sequence[int], directory: Path) -> str:
    module, other, known = ("processes", "host", PROCESSES) if pids else ("host", "processes", HOST)
    names = [metric.name for metric in known.metrics[: load.metrics]]
    return (
        f'[host]\nname = "paper"\n[probe]\ninterval_seconds = {load.interval}\nring_path = "{directory}/ring"\n'
        f"[probe.{module}]\nmetrics = {names}\n" + (f"pids = {pids}\nlimit = {len(pids)}\n" if pids else "")
        + f"[probe.{other}]\nenabled = false\n[probe.vms]\nenabled = false\n"
    )  # fmt: skip


@contextmanager
def _sleepers(count: int) -> Iterator[list[int]]:
    command = [sys.executable, "-I", "-S", "-c", _SLEEPERS, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            yield [int(word) for word in parent.stdout.readline().split()]
        finally:
            assert parent.stdin is not None
            parent.stdin.close()
            parent.wait()
