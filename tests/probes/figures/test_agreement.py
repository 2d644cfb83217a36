"""The same metric means the same from /proc and from the tools: side by side over the same ten ticks.

Half a core of known load runs meanwhile. procfs is sampled at the very moment at which
the tools' output arrives, so both see the same ten seconds but for milliseconds.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest

from acquisition.model.codes import VALID
from probes.metrics import HOST, PROCESSES
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import Request, Source, create
from probes.sources.procfs_host import HostSource
from probes.sources.procfs_processes import ProcessSource
from tests.support.process_load import busy
from tests.support.waiting import eventually

TICKS = 10
HOST_CPU = 0.02
PROCESS_CPU = 0.05
MEMORY = 0.01
RATES = 0.05

pytestmark = [pytest.mark.needs("vmstat", "pidstat"), pytest.mark.alone]

Pairs = list[tuple[Reading, Reading]]


class Measured(NamedTuple):
    """Readings of host and of processes, each as (tool, procfs); ``load`` is the part of a core that the load had
    between the first and the last of processes: less than the half that it wants where others want cores as well."""

    hosts: Pairs
    processes: Pairs
    load: float


def report(line: str) -> None:
    raise AssertionError(line)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """What was measured over TICKS ticks."""
    written = tmp_path_factory.mktemp("load") / "written"
    load = busy(0.5, str(written))
    try:
        eventually(lambda: written.exists() and written.stat().st_size)  # it is at work
        facts = HostFacts("here")
        selection = Selection(pids=(load.pid, os.getpid()))
        requests = {
            each.name: Request(each, 1.0, facts, Discovery(facts, selection, 60.0), report)
            for each in (HOST, PROCESSES)
        }
        tools = {"host": create("vmstat", requests["host"]), "processes": create("pidstat", requests["processes"])}
        procs: dict[str, Source] = {
            "host": HostSource(HOST, facts),
            "processes": ProcessSource(PROCESSES, facts, Discovery(facts, selection, 60.0)),
        }
        yield side_by_side(tools, procs, load.pid)
        for source in (*tools.values(), *procs.values()):
            source.close()
    finally:
        load.kill()
        load.wait()


def cpu_seconds(pid: int) -> float:
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


def side_by_side(tools: dict[str, Source], procs: dict[str, Source], load: int) -> Measured:
    found: dict[str, Pairs] = {name: [] for name in tools}
    used: dict[float, float] = {}  # by the load, in CPU seconds, at the moment of each reading of procfs

    def sampled(name: str) -> Reading:
        reading = procs[name].sample(time.time(), time.monotonic())
        assert reading is not None
        used[reading.monotonic] = cpu_seconds(load)
        return reading

    arrived: dict[str, Reading] = {}
    end = time.monotonic() + TICKS + 10
    while time.monotonic() < end and min(map(len, found.values())) < TICKS + 1:
        poll = select.poll()
        for source in tools.values():
            for number in source.filenos():
                poll.register(number, select.POLLIN)
        wake = min(end, *(source.wake_at() for source in tools.values()))
        ready = [number for number, _ in poll.poll(max(0.0, wake - time.monotonic()) * 1000)]
        for name, source in tools.items():
            if name not in arrived and any(number in ready for number in source.filenos()):
                arrived[name] = sampled(name)  # before the tool's rows are read
            reading = source.service(time.time(), time.monotonic(), ready)
            if reading is not None:  # it may have come since the poll, while the other tool was read
                found[name].append((reading, arrived.pop(name, None) or sampled(name)))
            elif source.wake_at() == float("inf"):
                arrived.pop(name, None)  # vmstat's first line
    first, last = (found["processes"][at][1].monotonic for at in (0, TICKS))
    hosts, processes = (found[name][1 : TICKS + 1] for name in ("host", "processes"))  # the first has no predecessor
    return Measured(hosts, processes, (used[last] - used[first]) / (last - first))


def column(readings: list[Reading], name: str, row: int = 0) -> list[float]:
    names = [metric.name for metric in readings[0].resource_set.metrics]
    at = row * len(names) + names.index(name)
    return [reading.values[at] for reading in readings if reading.codes[at] == VALID]


def compare(pairs: Pairs, name: str, close: Callable[[float, float], bool], row: int = 0) -> None:
    tool, proc = (column([pair[side] for pair in pairs], name, row) for side in (0, 1))
    assert len(tool) == len(proc) == TICKS, f"{name}: {len(tool)} and {len(proc)} valid samples"
    assert close(fmean(tool), fmean(proc)), f"{name}: the tool says {tool}, procfs {proc}"


def within(absolute: float) -> Callable[[float, float], bool]:
    return lambda a, b: abs(a - b) <= absolute


def near(relative: float, floor: float) -> Callable[[float, float], bool]:
    return lambda a, b: abs(a - b) <= max(relative * max(a, b), floor)


def load_row(reading: Reading) -> int:
    return next(i for i, entity in enumerate(reading.entities) if entity.labels["pid"] != str(os.getpid()))


@pytest.mark.parametrize("name", ["user", "system", "idle", "iowait", "steal"])
def test_host_cpu(pairs: Measured, name: str) -> None:
    compare(pairs.hosts, f"cpu_{name}_ratio", within(HOST_CPU))


def test_the_load_is_seen(pairs: Measured) -> None:
    readings = [pair[1] for pair in pairs.processes]
    cores = os.sysconf("SC_NPROCESSORS_ONLN")
    assert pairs.load > 0.05
    seen = fmean(column(readings, "cpu_ratio", load_row(readings[0])), [reading.dt for reading in readings])
    assert seen == pytest.approx(pairs.load, abs=0.05)
    assert fmean(column([pair[1] for pair in pairs.hosts], "cpu_idle_ratio")) < 1 - 0.8 * pairs.load / cores


@pytest.mark.parametrize("name", ["memory_free_bytes", "memory_cache_bytes", "memory_buffers_bytes", "swap_used_bytes"])
def test_host_memory(pairs: Measured, name: str) -> None:
    compare(pairs.hosts, name, near(MEMORY, 1 << 20))


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("interrupts_per_second", 20.0),
        ("context_switches_per_second", 20.0),
        ("block_out_bytes_per_second", 65536.0),
        ("block_in_bytes_per_second", 65536.0),
        ("swap_in_bytes_per_second", 4096.0),
    ],
)
def test_host_rates(pairs: Measured, name: str, floor: float) -> None:
    compare(pairs.hosts, name, near(RATES, floor))


@pytest.mark.parametrize(
    "name", ["cpu_user_ratio", "cpu_system_ratio", "cpu_guest_ratio", "cpu_wait_ratio", "cpu_ratio"]
)
def test_process_cpu(pairs: Measured, name: str) -> None:
    compare(pairs.processes, name, within(PROCESS_CPU), load_row(pairs.processes[0][1]))


@pytest.mark.parametrize("name", ["memory_virtual_bytes", "memory_resident_bytes", "memory_ratio"])
def test_process_memory(pairs: Measured, name: str) -> None:
    floor = 0.0001 if name == "memory_ratio" else 8192.0  # pidstat prints per cent with two digits
    compare(pairs.processes, name, near(MEMORY, floor), load_row(pairs.processes[0][1]))


@pytest.mark.parametrize(
    ("name", "floor"),
    [
        ("minor_faults_per_second", 8.0),
        ("major_faults_per_second", 0.1),
        ("disk_read_bytes_per_second", 4096.0),
        ("disk_write_bytes_per_second", 4096.0),
        ("disk_write_cancelled_bytes_per_second", 4096.0),
        ("voluntary_switches_per_second", 2.0),
        ("involuntary_switches_per_second", 2.0),
    ],
)
def test_process_rates(pairs: Measured, name: str, floor: float) -> None:
    compare(pairs.processes, name, near(RATES, floor), load_row(pairs.processes[0][1]))


def test_both_say_the_same_about_block_delays(pairs: Measured) -> None:
    at = [metric.name for metric in PROCESSES.metrics].index("io_delay_ticks")
    enabled = HostFacts("here").delay_accounting
    for tool, proc in pairs.processes:
        assert tool.codes[at] == proc.codes[at]
        assert (proc.codes[at] == VALID) == enabled


def test_the_entities_are_the_same(pairs: Measured) -> None:
    tool, proc = pairs.processes[0]
    assert {entity.id for entity in tool.entities} == {entity.id for entity in proc.entities}
    assert pairs.hosts[0][0].entities[0].id == pairs.hosts[0][1].entities[0].id
    assert Path(f"/proc/{tool.entities[0].labels['pid']}").exists()
