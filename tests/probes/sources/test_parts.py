"""Parts of the host: busiest core, cores, NUMA nodes, interfaces, file systems, and where each is read."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acquisition.model.codes import FIRST, MISSING, NAN, RATE, RESET, VALID
from probes.checks import build_pipeline
from probes.figures.host_figures import worst_core
from probes.metrics import HOST, RESOURCE_SETS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import REGISTRY, Request, Source, create
from probes.sources.cores import CoreSource
from probes.sources.filesystems import FilesystemSource
from probes.sources.interfaces import InterfaceSource
from probes.sources.numa_nodes import NodeSource, cpus_of
from probes.sources.procfs_host import HostSource
from tests.support import FIXTURES, ROOT

CAPTURE = FIXTURES / "numa"
KIB = 1024.0


@pytest.fixture
def facts(tmp_path: Path) -> HostFacts:
    """Two nodes of two cores; writable, as files change between two readings."""
    shutil.copytree(CAPTURE, tmp_path / "host")
    return HostFacts("h", str(tmp_path / "host/proc"), str(tmp_path / "host/sys"))


def request(facts: HostFacts, name: str, names: tuple[str, ...] = ()) -> Request:
    return Request(RESOURCE_SETS[name], 1.0, facts, Discovery(facts, Selection(), 5.0), print, {"names": names})


def rows(reading: Reading | None) -> dict[str, dict[str, tuple[float, int]]]:
    """Values and codes by entity and metric, after all checks."""
    assert reading is not None
    build_pipeline(reading.resource_set, {})(reading)
    width = len(reading.resource_set.metrics)
    cells = list(zip((round(value, 6) for value in reading.values), reading.codes, strict=True))
    names = [metric.name for metric in reading.resource_set.metrics]
    return {
        entity.name: dict(zip(names, cells[row * width : (row + 1) * width], strict=True))
        for row, entity in enumerate(reading.entities)
    }


def next_second(facts: HostFacts) -> None:
    """cpu0 works through a second, cpu1 half of it, cpu2 waits for I/O, cpu3 is idle; eth0 receives 3,000 bytes."""
    shutil.copytree(CAPTURE.parent / "numa-later", facts.proc, dirs_exist_ok=True)


def two(source: Source, facts: HostFacts) -> tuple[Reading | None, Reading | None]:
    before = source.sample(1000.0, 50.0)
    next_second(facts)
    after = source.sample(1001.0, 51.0)
    source.close()
    return before, after


@pytest.mark.parametrize("defined", [False, True])
def test_busiest_core_and_spread_are_figures_of_every_host(facts: HostFacts, defined: bool) -> None:
    source = HostSource(HOST.select(("cpu_worst_core_ratio", "cpu_core_spread_ratio")), facts)
    if defined:
        source._table = None
    before, after = (rows(each)["h"] for each in two(source, facts))
    assert {code for _, code in before.values()} == {FIRST}
    assert after == {"cpu_worst_core_ratio": (1.0, VALID), "cpu_core_spread_ratio": (1.0, VALID)}


@pytest.mark.parametrize(
    ("grown", "code"), [((0, 0), FIRST), ((-500, 0), RESET), ((900, 0), RATE), ((40, 60), VALID), ((-5, 0), FIRST)]
)
def test_core_whose_ticks_fell_or_jumped_hides_the_busiest(grown: tuple[int, int], code: int) -> None:
    old = {0: [1000, 0, 1000, 0, 0, 0], 1: [1000, 0, 1000, 0, 0, 0]}
    new = {0: [1000 + grown[0], 0, 1000 + grown[1], 0, 0, 0], 2: [1, 0, 1, 0, 0, 0]}
    (worst, found), (spread, _) = worst_core(new, old, 150.0)
    assert found == code
    assert (worst, spread) == ((0.4, 0.0) if code == VALID else (pytest.approx(NAN, nan_ok=True),) * 2)
    assert worst_core({}, old, 150.0)[0][1] == MISSING


def test_cores_have_the_shares_of_the_host(facts: HostFacts) -> None:
    before, after = map(rows, two(CoreSource(request(facts, "cores")), facts))
    assert {code for row in before.values() for _, code in row.values()} == {FIRST}
    assert [row["cpu_user_ratio"][0] for row in after.values()] == [0.9, 0.5, 0.0, 0.0]
    assert after["cpu2"]["cpu_iowait_ratio"] == (1.0, VALID)
    assert after["cpu0"]["cpu_guest_ratio"] == (0.1, VALID)


def test_numa_nodes_have_cpu_memory_and_huge_pages(facts: HostFacts) -> None:
    _, after = two(NodeSource(request(facts, "numa_nodes")), facts)
    found = rows(after)
    assert list(found) == ["node0", "node1"]
    assert found["node0"]["cpu_user_ratio"] == (0.7, VALID)
    assert found["node1"]["cpu_iowait_ratio"] == (0.5, VALID)
    assert found["node0"]["memory_total_bytes"] == (8_000_000 * KIB, VALID)
    assert found["node0"]["hugepages_free_bytes"] == (2 * (2 << 20) + (1 << 30), VALID)
    assert found["node1"]["hugepages_total_bytes"][1] == MISSING
    assert cpus_of(b"0-2,7,x,9-\n") == [0, 1, 2, 7]


def test_interfaces_are_those_with_a_device_or_of_a_pattern(facts: HostFacts) -> None:
    _, after = two(InterfaceSource(request(facts, "interfaces")), facts)
    found = rows(after)
    assert list(found) == ["eth0"]
    assert found["eth0"]["network_receive_bytes_per_second"] == (3000.0, VALID)
    assert found["eth0"]["network_transmit_drops_per_second"] == (2.0, VALID)
    assert found["eth0"]["link_speed_bytes_per_second"] == (125e6, VALID)
    reading = InterfaceSource(request(facts, "interfaces", ("tap.*", "lo"))).sample(1000.0, 50.0)
    assert set(rows(reading)) == {"lo", "tap0"}


def test_file_system_that_is_not_there_is_missing(facts: HostFacts, tmp_path: Path) -> None:
    here, gone = str(tmp_path), str(tmp_path / "gone")
    found = rows(FilesystemSource(request(facts, "filesystems", (here, gone))).sample(1000.0, 50.0))
    assert found[here]["space_total_bytes"][0] >= found[here]["space_available_bytes"][0] > 0
    assert {code for _, code in found[gone].values()} == {MISSING}


def test_nothing_more_is_read_or_imported_unless_configured() -> None:
    parts = [
        registered.module for (name, _), registered in REGISTRY.items() if name not in ("host", "processes", "vms")
    ]
    assert len(parts) == 5
    code = (
        "import sys; from probes.probe_command import main; sys.stdout.flush()\n"
        "import probes.sources.procfs_host, probes.sources.procfs_processes, probes.sources.procfs_vms\n"
        f"assert not set({parts!r}) & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


def test_parts_and_daemons_come_from_the_configuration(tmp_path: Path) -> None:
    """Through the real probe; file systems through their child."""
    config = tmp_path / "parts.toml"
    config.write_text(
        "[probe.host]\nenabled = false\n[probe.vms]\nenabled = false\n[probe.processes]\ncommands = ['no such thing']\n"
        "[probe.cores]\nenabled = true\n[probe.numa_nodes]\nenabled = true\n"
        f"[probe.interfaces]\nnames = ['l?']\nenabled = true\n[probe.filesystems]\npaths = ['{tmp_path}']\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "acquisition", "probe", "--dry-run", "--ticks", "3", "--config", str(config)],
        cwd=ROOT, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    found: dict[str, set[str]] = {}
    for line in done.stdout.splitlines():
        reading = json.loads(line)
        found.setdefault(reading["resource_set"], set()).update(each["name"] for each in reading["entities"])
    assert "cpu0" in found["cores"]
    assert found["interfaces"] == {"lo"}
    assert found["filesystems"] == {str(tmp_path)}
    assert "shardpulse-prob" in found["processes"], "the probe itself, though no selector names it"


def test_every_source_of_parts_is_registered() -> None:
    facts = HostFacts("h")
    for name in ("cores", "numa_nodes", "interfaces"):
        source = create("procfs", request(facts, name))
        assert source.sample(1000.0, 50.0) is not None
        source.close()
