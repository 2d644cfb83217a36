"""The live view, rendered to text at 80 columns."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from demo_history import History
from demo_view import HOST_METRICS, Books, ShardLine, busiest_processes, plain_lines, render
from report import freshness_text
from rich.console import Console, RenderableType
from usage import whole_name

from acquisition.link.cluster import Cluster
from acquisition.model.identity import host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.shards.servers.launch import Shards
from acquisition.shards.servers.status import ShardStatus
from acquisition.snapshot import Snapshot, SnapshotReader
from acquisition.snapshot.values.rows import Row
from acquisition.terminal import printable
from acquisition.wire.position import Position
from filters.text.quantities import exact, quantity, seconds
from filters.text.sparkline import bars
from tests.support.scene import Scene, entities, record
from tests.support.waiting import eventually

NOW = 1_000_000.75
TICK = 999_999
UNITS = {"bytes": "bytes", "bytes_per_second": "bytes/s", "ratio": "ratio"}
SHARDS = [
    ShardLine(
        ShardStatus(
            "127.0.0.1:17600", True, pid=1, core=0, pinned=True, memory_bytes=12 << 20, memory_limit_bytes=1 << 30,
            frames=1234567,
        ),
        0.0345,
    ),
    ShardLine(
        ShardStatus(
            "127.0.0.1:17601", False, "process not running", pid=2, core=1, pinned=False, memory_bytes=1 << 30
        ),
        None,
    ),
]  # fmt: skip
BOOKS = Books(1_234_567, 1_234_000, 12, 555, 0, ("vmstat (procps 4.0.2)", "pidstat (sysstat 12.6.1)"))


def unit_of(name: str) -> str:
    return next((unit for end, unit in UNITS.items() if name.endswith(end)), "1/s")


def host_metrics(scene: Scene, host: str, tick: int) -> None:
    metrics = tuple(Metric(name, unit_of(name), "gauge", 0, 1, "") for name in HOST_METRICS)
    values = np.array(
        [[0.123 * 10 ** (3 * (unit_of(name) != "ratio")) * 1e6 ** ("bytes" in name) for name in HOST_METRICS]]
    )
    rows = entities(host, [host])
    set_id = resource_set_id("host")
    data = record(
        host_id(host),
        set_id,
        [rows[0].id],
        values,
        tick,
        schema=schema_hash(metrics),
        exceptions=[(3, 1, float("inf"))],
    )
    scene.record(host, "host", data, tick)
    scene.position(host, "host", Position(5, 1, tick, tick + 0.5, 1.0))
    scene.names(host, "host", rows, metrics)


@pytest.fixture
def reader(shards: Shards, cluster: Cluster) -> Iterator[SnapshotReader]:
    with SnapshotReader(shards.connect(), clock=lambda: NOW) as reader:
        yield reader


@pytest.fixture
def snapshot(cluster: Cluster, reader: SnapshotReader) -> Snapshot:
    scene = Scene(cluster)
    host_metrics(scene, "web1", TICK)
    scene.host("web1", [TICK], names=[f"process with a name {i}" for i in range(20)])
    scene.host("web2", [TICK - 3], names=["init"])
    return reader.coherent()


def text_of(renderable: RenderableType, width: int = 80) -> list[str]:
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, record=True, file=nowhere)
        console.print(renderable)
        return console.export_text().splitlines()


def test_the_screen_fits_80_columns_and_25_plus_lines(snapshot: Snapshot) -> None:
    lines = text_of(render(snapshot, SHARDS, BOOKS, History(), busiest=8, note="Ctrl-C stops everything"))
    text = "\n".join(lines)
    assert max(map(len, lines)) <= 80
    assert len(lines) < 45
    assert "…" not in text, "names have the room that is left"
    for word in (
        f"tick {TICK}", "raw", "smoothed", "validity", "age", "cpu_user", "pressure_cpu_some", "12.3%", "MISSING",
        "busiest", "process with a name 19", "127.0.0.1:17600", "0 pinned", "3.5%", "12.0 MiB", "1,234,567",
        "1 NOT PINNED", "process not running", "samples lost 0", "made 1,234,567", "pending 555",
        "vmstat (procps 4.0.2), pidstat (sysstat 12.6.1)", "web2 processes late: 3 behind tick", "Ctrl-C",
    ):  # fmt: skip
        assert word in text, word


def test_only_names_are_cut_and_only_where_they_do_not_fit(cluster: Cluster, reader: SnapshotReader) -> None:
    long = "kworker/u8:3-events_unbound of a name that fits into no 80 columns, but into 120 of them"
    Scene(cluster).host("web1", [TICK], names=[long])
    narrow, wide = (text_of(render(reader.coherent(), SHARDS, BOOKS), width) for width in (80, 200))
    (cut,) = [line for line in narrow if line.startswith("kworker/")]
    assert cut.startswith(long[:20])
    assert "…" in cut
    assert cut.endswith(" s")  # its age
    assert any(line.startswith(f"{long} ") for line in wide)


@pytest.mark.parametrize("kind", ["program", "script"])
def test_a_name_that_the_kernel_has_cut_is_whole(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "command-with-a-long-name"
    if kind == "program":
        shutil.copy("/bin/sh", file)
    else:
        file.write_text("#!/bin/sh\nread line\n")
        file.chmod(0o755)
    with subprocess.Popen([file, "-c", "read line"], stdin=subprocess.PIPE) as process:
        pid = str(process.pid)
        eventually(lambda: Path(f"/proc/{pid}/comm").read_text() == "command-with-a-\n")
        assert whole_name(pid, "command-with-a-") == file.name
        assert whole_name(pid, "command") == "command"
        assert whole_name(pid, "another-of-15-b") == "another-of-15-b"
        process.kill()


def test_a_narrow_terminal_does_not_break_it(snapshot: Snapshot) -> None:
    assert text_of(render(snapshot, SHARDS, BOOKS), 40)


def test_nothing_yet(reader: SnapshotReader) -> None:
    text = "\n".join(text_of(render(reader.coherent(), [], Books())))
    assert "0 hosts" in text
    assert "samples lost -" in text
    assert plain_lines(reader.coherent(), [], Books())[-1].startswith("samples lost -")


def test_plain_lines_stand_alone(snapshot: Snapshot) -> None:
    lines = [line for text in plain_lines(snapshot, SHARDS, BOOKS, busiest=3) for line in text.splitlines()]
    firsts = [line.split()[0] for line in lines]
    assert firsts.count("host") == len(HOST_METRICS)
    assert firsts.count("process") == 3
    assert firsts.count("shard") == 2
    assert firsts.count("late") == 1
    assert "\x1b" not in "".join(lines)
    assert any(
        line.startswith(f"host web1 tick {TICK} cpu_user_ratio raw 112% smoothed 12.3% VALID age") for line in lines
    )


def test_busiest_first(snapshot: Snapshot) -> None:
    names = [cpu.entity for cpu, _ in busiest_processes(snapshot, "web1", 3)]
    assert names == [f"process with a name {i}" for i in (19, 18, 17)]
    assert busiest_processes(snapshot, "web2", 3) == [], "late processes are not idle and not busy"


def row(tick: int, mean: float | None) -> Row:
    return Row(
        "h", "s", "e", "process", "h:1", "1", "ab", "cpu_ratio", "cores", mean, 0.0, 0.0, mean, "VALID", 1.0, 0.0,
        tick, 1.0, "current", "",
    )  # fmt: skip


def test_sparklines() -> None:
    history = History(4)
    assert history.sparkline(row(1, 0.0)) == "   ▁"
    assert history.sparkline(row(2, 0.5)) == "  ▁▅"
    assert history.sparkline(row(2, 0.5)) == "  ▁▅", "one tick is taken once"
    assert history.sparkline(row(3, None)) == "  ▁▅"
    assert history.sparkline(row(4, 1.0)) == " ▁▅█"
    assert history.sparkline(row(5, 2.0)) == "▁▃▅█"
    assert history.sparkline(row(6, 2.0)) == "▃▅██"
    assert bars([]) == ""
    assert bars([0.0, 0.0]) == "▁▁"
    assert bars([-1.0, 0.0, 1.0]) == "▁▅█"


def test_history_forgets() -> None:
    history = History(2)
    for tick in range(1, 2000, 100):
        one = row(tick, 1.0)
        history.sparkline(Row(*(tick if name == "id" else getattr(one, name) for name in Row.__struct_fields__)))
    assert len(history) < 5


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "bytes", "-"), (float("nan"), "ratio", "-"), (0.0, "bytes", "0 B"), (1023.0, "bytes", "1023 B"),
        (1536.0, "bytes", "1.50 KiB"), (12 << 20, "bytes", "12.0 MiB"), (1 << 40, "bytes/s", "1.00 TiB/s"),
        (2.0**70, "bytes", "1048576 PiB"), (-1536.0, "bytes", "-1.50 KiB"), (0.0371, "ratio", "3.7%"),
        (12345.0, "1/s", "12.3k"), (3.0, "tasks", "3"), (2.345, "tasks", "2.35"), (999.6, "1/s", "1000"),
        (1.5e-27, "1/s", "0.000"), (-0.0002, "ratio", "0.0%"),
        (0.99949, "ratio", "99.9%"), (0.9996, "ratio", "100%"), (12.34, "cores", "1234%"), (1e5, "ratio", "10.0M%"),
        (0.0123, "tasks", "0.0123"),
    ],
)  # fmt: skip
def test_quantities(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_other_formats() -> None:
    assert [seconds(v) for v in (None, 0.617, 59.4, 600.0, 90000.0)] == ["-", "0.62 s", "59 s", "10 min", "25.0 h"]
    assert exact(float(np.float32(0.1))) == "0.1"
    assert printable("a\x1b[31mb\n") == "a\N{REPLACEMENT CHARACTER}[31mb\N{REPLACEMENT CHARACTER}"


def test_freshness_is_a_figure_or_said_to_be_unknown():
    assert freshness_text({"p50": None, "p99": None}) == "freshness not measured yet"
    assert freshness_text({"p50": 6.7, "p99": 17.5}) == "freshness p50 6.7 ms, p99 17.5 ms"
