"""The host from /proc: figures worked out by hand, missing files, steps back, the real machine."""

from __future__ import annotations

import math
import shutil
import time
from math import isnan
from pathlib import Path

import pytest

from acquisition.model.codes import FIRST, MISSING, RESET, STUCK, VALID
from probes.figures import hugepages, vms_suffering
from probes.figures.host_figures import SHARES, CpuFigures, cpu_ticks
from probes.figures.network import link_speed, parse, physical, total
from probes.figures.row import CounterMemory, Row
from probes.metrics import HOST
from probes.sampling.host_facts import HostFacts, Suffering
from probes.sampling.reading import Reading
from probes.sources.procfs_host import HostSource
from tests.support import FIXTURES

CAPTURES = FIXTURES / "proc"


def machine(tmp_path: Path) -> tuple[HostFacts, Path]:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    shutil.copytree(CAPTURES / "before", proc)
    for name, device, speed in (("lo", False, ""), ("eth0", True, "1000"), ("vnet7", False, "10")):
        link = sys / "class" / "net" / name
        link.mkdir(parents=True)
        (link / "speed").write_text(speed)
        if device:
            (link / "device").mkdir()
    return HostFacts("host-a", str(proc), str(sys)), proc


def later(proc: Path, name: str = "") -> None:
    """The second moment: contents change in place, as open files of /proc do."""
    for path in (CAPTURES / "after").rglob("*"):
        if path.is_file() and (not name or path.name == name):
            (proc / path.relative_to(CAPTURES / "after")).write_bytes(path.read_bytes())


def figures(reading: Reading) -> dict[str, tuple[float, int]]:
    names = [metric.name for metric in HOST.metrics]
    return dict(zip(names, zip(reading.values, reading.codes, strict=True), strict=True))


def test_every_figure_over_two_seconds(tmp_path: Path) -> None:
    facts, proc = machine(tmp_path)
    facts.suffering = Suffering(0.0, 0.0, VALID, math.inf)  # as the source of VMs leaves it
    source = HostSource(HOST, facts)
    source.sample(1000.0, 50.0)
    later(proc)
    reading = source.sample(1002.0, 52.0)
    expected = {
        "tasks_runnable": 3.0,
        "tasks_blocked": 1.0,
        "swap_used_bytes": 100_000 * 1024.0,
        "memory_free_bytes": 4_000_000 * 1024.0,
        "memory_buffers_bytes": 1000 * 1024.0,
        "memory_cache_bytes": 240_000 * 1024.0,
        "swap_in_bytes_per_second": 4 * facts.page_size / 2,
        "swap_out_bytes_per_second": 8 * facts.page_size / 2,
        "block_in_bytes_per_second": 200 * 1024 / 2,
        "block_out_bytes_per_second": 600 * 1024 / 2,
        "interrupts_per_second": 500.0,
        "context_switches_per_second": 1500.0,
        # 200 ticks in all: 90 user and nice, of which 45 ran guests
        "cpu_user_ratio": 45 / 200,
        "cpu_system_ratio": 34 / 200,
        "cpu_idle_ratio": 59 / 200,
        "cpu_iowait_ratio": 5 / 200,
        "cpu_steal_ratio": 12 / 200,
        "cpu_guest_ratio": 45 / 200,
        "memory_total_bytes": 8_000_000 * 1024.0,
        "memory_available_bytes": 6_000_000 * 1024.0,
        "cpu_count": 2.0,
        "cpu_worst_core_ratio": 60 / 100,
        "cpu_core_spread_ratio": 60 / 100 - 20 / 100,
        "network_receive_bytes_per_second": 2000.0,  # eth0 alone: lo is loopback, vnet7 has no device
        "network_transmit_bytes_per_second": 1000.0,
        "link_speed_bytes_per_second": 125e6,
        "pressure_cpu_some_ratio": 0.1,
        "pressure_memory_some_ratio": 0.02,
        "pressure_memory_full_ratio": 0.01,
        "pressure_io_some_ratio": 0.5,
        "pressure_io_full_ratio": 0.3,
        **{metric.name: 0.0 for metric in hugepages.METRICS},
        **{metric.name: 0.0 for metric in vms_suffering.METRICS},
    }
    assert set(expected) == {metric.name for metric in HOST.metrics}
    found = figures(reading)
    assert {name: value for name, (value, _) in found.items()} == pytest.approx(expected)
    assert not any(reading.codes)
    assert reading.dt == 2.0


def test_the_first_reading_has_gauges_and_no_rates(tmp_path: Path) -> None:
    facts, _ = machine(tmp_path)
    found = figures(HostSource(HOST, facts).sample(1000.0, 50.0))
    assert found["memory_free_bytes"] == (5_000_000 * 1024.0, VALID)
    for name in ("cpu_user_ratio", "interrupts_per_second", "block_in_bytes_per_second", "pressure_io_some_ratio"):
        value, code = found[name]
        assert code == FIRST
        assert isnan(value)


@pytest.mark.parametrize(
    ("path", "metric"),
    [
        ("pressure/io", "pressure_io_some_ratio"),
        ("vmstat", "swap_in_bytes_per_second"),
        ("stat", "cpu_user_ratio"),
        ("meminfo", "memory_free_bytes"),
        ("net/dev", "network_receive_bytes_per_second"),
    ],
)
def test_what_cannot_be_read_is_missing_and_the_rest_goes_on(tmp_path: Path, path: str, metric: str) -> None:
    facts, proc = machine(tmp_path)
    (proc / path).unlink()
    found = figures(HostSource(HOST, facts).sample(1000.0, 50.0))
    value, code = found[metric]
    assert code == MISSING
    assert isnan(value)
    assert sum(code == VALID for _, code in found.values()) >= 3


def link(sys: Path, name: str, speed: str, state: str) -> None:
    base = sys / "class" / "net" / name
    base.mkdir(parents=True)
    (base / "speed").write_text(speed)
    (base / "operstate").write_text(state)


def test_links_of_unknown_speed_are_missing(tmp_path: Path) -> None:
    assert link_speed(str(tmp_path), frozenset({"eth0"})) is None
    link(tmp_path, "eth0", "-1\n", "up\n")
    assert link_speed(str(tmp_path), frozenset({"eth0"})) is None


@pytest.mark.parametrize(
    ("speed", "state", "expected"),
    [
        ("1000\n", "up\n", 250e6),
        ("-1\n", "up\n", None),
        ("-1\n", "unknown\n", None),
        ("0\n", "up\n", None),
        ("", "up\n", None),
        ("-1\n", "down\n", 125e6),
        ("1000\n", "down\n", 125e6),
    ],
)
def test_the_speed_of_all_links_is_known_when_each_that_is_up_has_one(
    tmp_path: Path, speed: str, state: str, expected: float | None
) -> None:
    link(tmp_path, "eth0", "1000\n", "up\n")
    link(tmp_path, "eth1", speed, state)
    assert link_speed(str(tmp_path), frozenset({"eth0", "eth1"})) == expected


def test_without_a_physical_link_all_but_loopback_count(tmp_path: Path) -> None:
    for name in ("lo", "veth1"):
        (tmp_path / "class" / "net" / name).mkdir(parents=True)
    assert physical(str(tmp_path)) == {"veth1"}


def test_names_with_colons_and_lines_without_numbers_in_net_dev() -> None:
    row = b"eth0:1: 5 0 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n"
    assert parse(b"rubbish\n face |bytes: x\n" + row) == {"eth0:1": (5, 7)}


def test_an_interface_that_has_just_come_adds_nothing_yet() -> None:
    nan = float("nan")
    assert total([(5.0, VALID), (nan, FIRST)]) == (5.0, VALID)
    assert total([(nan, FIRST)])[1] == FIRST
    assert total([(5.0, VALID), (nan, RESET)])[1] == RESET
    assert total([])[1] == MISSING


def test_counters_of_what_vanished_are_forgotten() -> None:
    counters = CounterMemory()
    for number in range(100):  # a new container every second
        name = f"veth{number}"
        assert counters.rate("eth0", 5.0 * number, 1.0)[1] == (VALID if number else FIRST)
        assert counters.rate(name, 7.0, 1.0)[1] == FIRST
        counters.keep(["eth0", name])
    counters.keep(["eth0"])
    assert counters.rate("veth99", 8.0, 1.0)[1] == FIRST
    assert counters.rate("eth0", 500.0, 1.0) == (5.0, VALID)


def cpu(path: Path, *lines: str) -> list[Row]:
    rows = []
    source = CpuFigures(str(path))
    for line in lines:
        (path / "stat").write_text(f"cpu  {line}\ncpu0 {line}\nintr 5\nctxt 6\n")
        row: Row = {}
        source.read(1.0, row)
        rows.append(row)
    return rows


def test_steal_that_steps_back_a_little_is_jitter(tmp_path: Path) -> None:
    _, row = cpu(tmp_path, "100 0 0 1000 0 0 0 50 0 0", "150 0 0 1050 0 0 0 45 0 0")
    assert row["cpu_steal_ratio"] == (0.0, VALID)
    assert row["cpu_user_ratio"] == (0.5, VALID)


def test_a_large_step_back_is_a_reset(tmp_path: Path) -> None:
    _, row = cpu(tmp_path, "100000 0 0 1000 0 0 0 50 0 0", "15 0 0 1050 0 0 0 50 0 0")
    assert row["cpu_user_ratio"][1] == RESET
    assert row["cpu_idle_ratio"] == (0.5, VALID)


def test_cpus_come_and_go(tmp_path: Path) -> None:
    source = CpuFigures(str(tmp_path))
    found = []
    for tick, cpus in enumerate((4, 2, 1, 64, 2)):
        line = f"{100 + 10 * tick} 0 0 {1000 + 30 * tick} 0 0 0 0 0 0"
        each = "".join(f"cpu{number} {line}\n" for number in range(cpus))
        (tmp_path / "stat").write_text(f"cpu  {line}\n{each}intr 5\nctxt 6\n")
        row: Row = {}
        source.read(1.0, row)
        found.append((row["cpu_count"], row["cpu_user_ratio"]))
    assert [count for count, _ in found] == [(float(cpus), VALID) for cpus in (4, 2, 1, 64, 2)]
    assert [share for _, share in found[1:]] == [(0.25, VALID)] * 4
    source.close()


def test_no_tick_in_the_interval_is_a_stuck_source(tmp_path: Path) -> None:
    _, row = cpu(tmp_path, *["100 0 0 1000 0 0 0 50 0 0"] * 2)
    assert row["cpu_idle_ratio"][1] == STUCK


@pytest.mark.parametrize("text", [b"", b"cpu\n", b"cpu  a b c d\n", b"intr 1 2 3 4 5\n", b"cpu  1 -2 3 4\n"])
def test_a_broken_stat_has_no_ticks(text: bytes) -> None:
    assert cpu_ticks(text) == []


def test_only_the_files_of_the_selected_metrics_are_read(tmp_path: Path) -> None:
    facts, proc = machine(tmp_path)
    for name in ("stat", "vmstat"):
        (proc / name).unlink()
    chosen = HOST.select(("memory_free_bytes", "memory_total_bytes"))
    reading = HostSource(chosen, facts).sample(1000.0, 50.0)
    assert list(reading.values) == [5_000_000 * 1024.0, 8_000_000 * 1024.0]
    assert not any(reading.codes)


def test_this_machine() -> None:
    source = HostSource(HOST, HostFacts("here"))
    source.sample(time.time(), time.monotonic())
    time.sleep(0.3)
    found = figures(source.sample(time.time(), time.monotonic()))
    shares = [value for name, (value, _) in found.items() if name in SHARES]
    assert sum(shares) == pytest.approx(1.0)
    assert found["memory_free_bytes"][0] < found["memory_total_bytes"][0]
    source.close()
