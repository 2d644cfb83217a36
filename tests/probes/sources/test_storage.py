"""The benchmark of storage: what fio is asked, what is read from its answer, and that nothing else waits for it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from acquisition.config.loader import parse as configured
from acquisition.errors import ConfigError
from acquisition.shards.servers.launch import Shards
from acquisition.status.finding import STALE, Finding, of_sources
from acquisition.wire.status import Status
from probes.metrics import STORAGE
from probes.probe_command import modules
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources import Request, create
from probes.sources.storage import Options, Point, Refused, arguments, obstacle, parse
from tests.support import ROOT
from tests.support.waiting import eventually

FIXTURE = (ROOT / "tests/fixtures/fio/fio-3.33-two-sizes.json").read_text()
SIZES = (65536, 1 << 20)
MIB = 1 << 20


def options(path: Path, **changed: object) -> Options:
    return Options(str(path), 8 * MIB, SIZES, 0.5, 0, True)._replace(**changed)


def test_figures_of_a_captured_answer_are_in_base_units(tmp_path: Path) -> None:
    found = parse(FIXTURE, options(tmp_path).points)
    assert {name for row in found for name in row} == {metric.name for metric in STORAGE.metrics}
    assert [round(row["throughput_bytes_per_second"] / 1e6) for row in found] == [100] * 4  # a device of 100 MB/s
    for row, point in zip(found, options(tmp_path).points, strict=True):
        assert row["latency_seconds"] == pytest.approx(point.record_bytes / 1e8, rel=0.02), "one record at a time"
        assert row["latency_seconds"] < row["latency_p99_seconds"]
        assert 0.1 < row["jitter_ratio"] < 0.4


def test_point_without_intervals_has_no_jitter(tmp_path: Path) -> None:
    (row, *_) = parse(FIXTURE.replace('"bw_samples" : 15', '"bw_samples" : 1'), options(tmp_path).points)
    assert math.isnan(row["jitter_ratio"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FIXTURE.replace('"error" : 0', '"error" : 5'), "write-64k: Input/output error"),
        (FIXTURE.replace("read-1m", "read-2m"), "unreadable result"),
        ("fio: cannot", "unreadable result"),
    ],
)
def test_answer_that_lacks_a_point_is_refused(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=said):
        parse(text, options(tmp_path).points)


def test_points_are_named_by_operation_and_size() -> None:
    assert [Point("read", size).name for size in (1000, 65536, 16 * MIB)] == ["read-1000", "read-64k", "read-16m"]


@pytest.mark.needs("fio")
def test_disk_without_room_is_refused_with_what_to_do(tmp_path: Path) -> None:
    assert not obstacle(options(tmp_path), str(tmp_path / "file"))
    said = obstacle(options(tmp_path, size_bytes=1 << 60), "")
    assert said.startswith(f"{tmp_path} has ")
    assert said.endswith("free space, or lower size_bytes")
    assert "No such file" in obstacle(options(tmp_path / "absent"), "")


def test_budget_and_class_are_handed_to_fio(tmp_path: Path) -> None:
    asked = arguments(options(tmp_path, bytes_per_second=1000), "file")
    assert {"--rate=1000", "--prioclass=3", "--direct=1", "--size=8388608", "--filename=file"} <= set(asked)
    assert asked.count("--runtime=500ms") == 4, "all but the layout, which must be whole before anything is read"
    assert not {"--rate=0", "--prioclass=3"} & set(arguments(options(tmp_path, idle=False), "file"))


def test_configuration_gives_the_nine_sizes_and_a_moment() -> None:
    (*_, module) = modules(configured('[probe.storage]\nenabled = true\npath = "/srv"\nat = "03:30"\n'))
    assert (module.resource_set, module.source, module.interval) == ("storage", "fio", 86400.0)
    chosen = Options(**module.options)
    names = [point.name for point in chosen.points]
    assert (len(names), names[0], names[8], names[-1]) == (18, "write-64k", "write-16m", "read-16m")
    assert (chosen.phase, chosen.size_bytes) == (3.5 * 3600, 8 << 30)
    with pytest.raises(ConfigError, match=r"key probe.storage.path: expected the absolute path"):
        configured("[probe.storage]\nenabled = true\n")


def test_source_without_values_is_one_finding_for_all_probes() -> None:
    reports = [
        Status(name, 0.0, {}, {"modules": {"host": {"problem": ""}, "storage": {"problem": problem}}})
        for name, problem in (("a", ""), ("b", "fio is not installed"), ("c", "fio is not installed"))
    ]
    said = "2 of 3 probes read no values of it, for example host b: fio is not installed"
    assert of_sources(reports) == [Finding(STALE, "set storage", said)]


CONFIG = """
[host]
name = "{name}"
[probe]
interval_seconds = 0.25
[probe.processes]
enabled = false
[probe.storage]
enabled = true
path = "{path}"
size_bytes = 4194304
record_sizes = [65536, 1048576]
seconds_per_point = 0.5
interval_seconds = 4
"""


class DryRun:
    """A probe without shards that measures ``path``; what it has printed by resource set."""

    def __init__(self, directory: Path, path: Path, more: str = "") -> None:
        self._out = directory / "out"
        self.said = directory / "said"
        config = directory / "probe.toml"
        config.write_text(CONFIG.format(name="early", path=path) + more)
        with self._out.open("wb") as out, self.said.open("wb") as said:
            self.process = subprocess.Popen(
                shardpulse("probe", "--dry-run", "--config", str(config)),
                cwd=ROOT, stdout=out, stderr=said,
            )  # fmt: skip

    def __enter__(self) -> DryRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        self.process.wait()

    def readings(self, name: str) -> list[dict[str, object]]:
        lines = self._out.read_text().splitlines(True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [one for one in found if one["resource_set"] == name]


@pytest.mark.needs("fio")
def test_probe_ticks_on_while_storage_is_measured(tmp_path: Path) -> None:
    measured = tmp_path / "measured"
    measured.mkdir()
    with DryRun(tmp_path, measured) as probe:
        (reading, *_) = eventually(lambda: probe.readings("storage"), says=probe.said.read_text)
        hosts = probe.readings("host")
    entities = {entity["name"]: entity["metrics"] for entity in reading["entities"]}  # type: ignore[attr-defined]
    assert list(entities) == ["write-64k", "write-1m", "read-64k", "read-1m"]
    assert all(row["throughput_bytes_per_second"] > 0 < row["latency_seconds"] for row in entities.values())
    assert list(measured.iterdir()) == []
    ticks = [one["tick"] for one in hosts]
    assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))  # type: ignore[call-overload, operator]


@pytest.mark.needs("fio")
@pytest.mark.usefixtures("cluster")
def test_figures_of_storage_are_read_like_all_others(shards: Shards, tmp_path: Path) -> None:
    more = f"[shards]\naddresses = {json.dumps([str(address) for address in shards.addresses])}\n"
    config = tmp_path / "pipeline.toml"
    config.write_text(CONFIG.format(name="early", path=tmp_path) + more)
    parts = [
        subprocess.Popen(shardpulse(part, "--config", str(config)), cwd=ROOT, stderr=subprocess.DEVNULL)
        for part in ("probe", "filter")
    ]
    ask = shardpulse("query", "--latest", "--json", "--config", str(config), "--set", "storage")

    def asked() -> list[dict[str, object]]:
        done = subprocess.run(ask, cwd=ROOT, capture_output=True, text=True, check=False)
        return list(json.loads(done.stdout)["rows"]) if done.returncode == 0 else []

    try:
        rows = eventually(asked)
    finally:
        for part in parts:
            part.terminate()
            part.wait()
    throughput = {row["entity"]: row for row in rows if row["metric"] == "throughput_bytes_per_second"}
    assert set(throughput) == {"write-64k", "write-1m", "read-64k", "read-1m"}
    assert all(row["validity"] == "VALID" and row["last"] > 0 for row in throughput.values())  # type: ignore[operator]


def shardpulse(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "acquisition", *arguments]


@pytest.mark.needs("fio")
def test_benchmark_dies_with_its_probe(tmp_path: Path) -> None:
    measured = tmp_path / "measured"
    measured.mkdir()
    with DryRun(tmp_path, measured, "bytes_per_second = 1048576\n") as probe:
        eventually(lambda: runs_in(measured), says=probe.said.read_text)
        probe.process.kill()
        eventually(lambda: not runs_in(measured))


def runs_in(path: Path) -> list[str]:
    """The command lines of fio that name a file below ``path``."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found.append(file.read_text())
    return [line for line in found if f"--filename={path}" in line]


def test_host_without_fio_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    facts = HostFacts("h")
    discovery = Discovery(facts, Selection(), 5.0)
    chosen = options(tmp_path)._asdict()
    source = create("fio", Request(STORAGE, 86400.0, facts, discovery, print, chosen))
    try:
        eventually(
            lambda: source.service(time.time(), time.monotonic(), source.filenos()) or source.account()["problem"]
        )
        assert source.account()["problem"] == "fio is not installed (Debian: apt install fio)"
    finally:
        source.close()
