"""``shardpulse query`` on real shards: terminal, pipe, JSON, and what is wrong."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_UNAVAILABLE
from acquisition.link.cluster import Cluster
from acquisition.model import codes
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.wire import keys
from acquisition.wire.position import Position
from acquisition.wire.table import Entity
from filters.query.output import tables
from filters.query.request import Request, Section, sections
from tests.support.processes import started
from tests.support.scene import METRICS, Scene, record
from tests.support.still_clock import this_tick

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def scene(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Scene:
    """web1 is current, web2 late, web3 down; one sample of web1 is invalid, one never was valid."""
    scene = Scene(cluster)
    now = this_tick(monkeypatch)
    recent = [now - 2, now - 1, now]
    scene.host("web1", recent, exceptions=[(1, codes.RANGE, 2.5), (2, codes.TIMEOUT, float("inf"))])
    scene.host("web1", recent, resource_set="host", names=["web1"])
    scene.host("web2", [now - 6, now - 5])
    scene.host("web3", [now - 60])
    return scene


@pytest.fixture
def addresses(shards: Shards) -> str:
    return ",".join(map(str, shards.addresses))


def query(addresses: str, *arguments: str) -> int:
    return shardpulse(["query", "--shards", addresses, *arguments])


def strict(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)


def test_json_is_valid_and_complete(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert query(addresses, "--json") == 0
    answer = strict(capsys.readouterr().out)
    assert (answer["reading"], answer["errors"], answer["damaged"]) == ("coherent", [], 0)
    states = {(row["host"], row["resource_set"]): row["state"] for row in answer["sets"]}
    assert states == {
        ("web1", "host"): "current",
        ("web1", "processes"): "current",
        ("web2", "processes"): "late",
        ("web3", "processes"): "down",
    }
    assert len(answer["rows"]) == 2 + 3 * 4
    by_state: dict[str, dict[str, Any]] = {row["state"]: row for row in answer["rows"]}
    assert by_state["late"]["mean"] is None
    assert by_state["late"]["reason"].startswith("4 behind")
    invalid = next(row for row in answer["rows"] if row["validity"] == "RANGE")
    assert (invalid["stale_seconds"], invalid["entity"], invalid["metric"]) == (2.5, "init", "memory_resident_bytes")
    never = next(row for row in answer["rows"] if row["validity"] == "TIMEOUT")
    assert never["stale_seconds"] is None
    for name in ("tick", "age_seconds", "validity", "interval", "unit", "deviation", "trend", "last", "id", "epoch"):
        assert name in invalid


def test_numbers_have_the_digits_of_a_float32(cluster: Cluster, addresses: str, capsys: Capture) -> None:
    scene = Scene(cluster)
    now = int(time.time())
    rows = scene.host("web1", [now], names=["init"])
    data = record(host_id("web1"), resource_set_id("processes"), [rows[0].id], np.array([[0.1, 1e30]]), now)
    scene.record("web1", "processes", data, now)
    assert query(addresses, "--json", "--latest") == 0
    means = [row["mean"] for row in strict(capsys.readouterr().out)["rows"]]
    assert means == [0.1, 1e30]


def test_a_pipe_gets_plain_lines_that_stand_alone(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert query(addresses) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    head, *lines = out.splitlines()
    assert head.split()[:3] == ["HOST", "SET", "ENTITY"]
    assert len(lines) == 14
    assert all(line.split()[0] in ("web1", "web2", "web3") for line in lines)
    assert sum(line.endswith("late") for line in lines) == 4
    assert sum(line.endswith("down") for line in lines) == 4


def test_selection(scene: Scene, addresses: str, capsys: Capture) -> None:
    def chosen(*arguments: str) -> list[tuple[str, str, str]]:
        assert query(addresses, "--json", *arguments) == 0
        rows = strict(capsys.readouterr().out)["rows"]
        return [(row["host"], row["entity"], row["metric"]) for row in rows]

    assert chosen("--host", "web1", "--set", "host", "--metric", "cpu_*") == [("web1", "web1", "cpu_ratio")]
    assert chosen("--entity", "web s*", "--metric", "cpu_ratio", "--host", "web[12]") == [
        ("web1", "web server", "cpu_ratio"),
        ("web2", "web server", "cpu_ratio"),
    ]
    assert chosen("--host", f"{host_id('web3'):016x}", "--entity", "1", "--metric", "cpu_ratio") == [
        ("web3", "init", "cpu_ratio")
    ]
    assert chosen("--set", "processes", "--host", "web1", "--top", "1", "--metric", "cpu_ratio") == [
        ("web1", "web server", "cpu_ratio")
    ]
    assert len(chosen("--metric", "cpu_ratio", "memory*", "--host", "web1", "--host", "web2")) == 10
    assert len(chosen("--metric", "cpu_ratio,memory*", "--host", "web1,web2")) == 10


def test_a_vm_that_migrates_is_marked(
    cluster: Cluster, addresses: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, now = Scene(cluster), this_tick(monkeypatch)
    for host, born, cpu in (("source", "1", 0.9), ("target", str(now), 0.0)):
        process = Entity(entity_id("vm", "u-1", host), "vm", "u-1", host, "guest", {"started": born})
        data = record(host_id(host), resource_set_id("vms"), [process.id], np.full((1, 2), cpu), now)
        scene.record(host, "vms", data, now)
        scene.position(host, "vms", Position(5, now, now, now + 0.5, 1.0))
        scene.names(host, "vms", [process])
    assert query(addresses, "--json", "--latest") == 0
    rows = strict(capsys.readouterr().out)["rows"]
    assert {(row["host"], row["placement"]) for row in rows} == {("source", "migrating"), ("target", "shadow")}
    assert query(addresses, "--latest", "--metric", "cpu_ratio") == 0
    _, *lines = capsys.readouterr().out.splitlines()
    assert [line.split()[-1] for line in lines] == ["current,migrating", "current,shadow"]
    with SnapshotReader.connect(addresses.split(",")) as reader:
        console = Console(record=True, width=100)
        console.print(tables(sections(reader.latest(), Request()), 100))
    shown = console.export_text()
    assert "(migrating) guest" in shown
    assert "(shadow) guest" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "wob1"], "no host matches 'wob1'; did you mean web1"),
        (["--set", "process"], "no resource set matches 'process'; did you mean processes?"),
        (["--metric", "cpu_ration"], "no metric matches 'cpu_ration'; did you mean cpu_ratio?"),
        (["--entity", "zzz"], "no entity matches 'zzz'; known: web1, init, web server"),
        (["--host", "web2", "--set", "host"], "no resource set matches 'host'; known: processes"),
    ],
)
def test_what_nobody_has_is_an_error_with_a_suggestion(
    arguments: list[str], message: str, scene: Scene, addresses: str, capsys: Capture
) -> None:
    for output in ([], ["--json"]):
        assert query(addresses, *arguments, *output) == 65
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.out == ""


def test_no_samples_yet(cluster: Cluster, addresses: str, capsys: Capture) -> None:
    assert query(addresses) == 75
    assert "are `shardpulse probe` and `shardpulse filter` running?" in capsys.readouterr().err
    assert query(addresses, "--json") == 75
    assert strict(capsys.readouterr().out)["rows"] == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--shards", "127.0.0.1:1"], 69),
        (["--shards", "nonsense"], 2),
        (["--config", "/nonexistent/file.toml"], 66),
    ],
)
def test_shards_that_are_not_there(arguments: list[str], code: int, capsys: Capture) -> None:
    assert shardpulse(["query", *arguments]) == code
    assert capsys.readouterr().err.startswith("shardpulse: error: ")


@pytest.mark.parametrize("arguments", ["--watch 0", "--top -1", "--grace x", "--watch nan", "--oops"])
def test_wrong_usage(arguments: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as error:
        shardpulse(["query", *arguments.split()])
    assert error.value.code == 2
    assert "usage: shardpulse query" in capsys.readouterr().err


def test_damaged_records_are_counted(scene: Scene, addresses: str, capsys: Capture) -> None:
    for tick in range(3):
        key = scene.record_key("web1", "host", tick)
        scene.put(key, "SET", key, b"garbage")
    assert query(addresses, "--json") == 0
    captured = capsys.readouterr()
    answer = strict(captured.out)
    assert answer["damaged"] == 1
    assert "1 damaged" in captured.err
    (row,) = (one for one in answer["sets"] if one["resource_set"] == "host")
    assert row["reason"].startswith("unreadable record")


def test_part_of_the_shards(scene: Scene, addresses: str, capsys: Capture) -> None:
    key = keys.applied(keys.tags(keys.DEFAULT_PARTITIONS)[0])
    scene.put(key, "SET", key, "of the wrong type")
    assert query(addresses, "--host", "web1") == 69
    captured = capsys.readouterr()
    assert "WRONGTYPE" in captured.err
    assert "web1" in captured.out


def test_watch_ends_after_count_and_survives_trouble(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert query(addresses, "--latest", "--json", "--watch", "0.05", "--count", "3") == 0
    documents = [strict(line) for line in capsys.readouterr().out.splitlines()]
    assert len(documents) == 3
    assert documents[0]["now"] < documents[1]["now"] < documents[2]["now"]
    assert shardpulse(["query", "--shards", "127.0.0.1:1", "--watch", "0.01", "--count", "2"]) == 69
    assert capsys.readouterr().err.count("is unreachable") == 1  # of two answers


def rendered(chosen: list[Section], width: int) -> str:
    with open(os.devnull, "w") as nowhere:
        console = Console(width=width, record=True, file=nowhere)
        console.print(tables(chosen, width))
        return console.export_text()


def test_tables_fit_80_columns(scene: Scene, shards: Shards) -> None:
    with SnapshotReader(shards.connect()) as reader:
        chosen = sections(reader.coherent(), Request(top=1))
    lines = rendered(chosen, 80).splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert "web1 · processes · tick" in text
    assert "… 1 more entities: --top 0" in text
    assert "late: " in text
    assert "…" not in text.replace("… 1 more", ""), "nothing is cut"


def test_figures_are_never_cut(cluster: Cluster, shards: Shards) -> None:
    scene = Scene(cluster)
    now = int(time.time())
    metrics = (METRICS[0], METRICS[1]._replace(name="disk_write_cancelled_bytes_per_second_and_more"))
    rows = scene.host("web1", [now], names=["a process with quite a long name"])
    scene.names("web1", "processes", rows, metrics)
    values = np.array([[1.0, 1023 * 1024.0]])
    ids = [row.id for row in rows]
    invalid = [(1, codes.INCONSISTENT, 119.0)]
    data = record(
        host_id("web1"), resource_set_id("processes"), ids, values, now, schema=schema_hash(metrics), exceptions=invalid
    )
    scene.record("web1", "processes", data, now)
    with SnapshotReader(shards.connect()) as reader:
        chosen = sections(reader.latest(), Request())
    for width in (80, 120):
        text = rendered(chosen, width)
        assert "1023 KiB" in text
        assert "INCONSISTENT 119 s" in text
        assert "1 a process" in text
        assert max(map(len, text.splitlines())) <= width


def in_terminal(arguments: list[str], width: int, **environment: str) -> str:
    """What the command prints to a terminal of its own."""
    parent, child = pty.openpty()
    env = {**os.environ, "COLUMNS": str(width), "TERM": "xterm-256color", **environment}
    command = [sys.executable, "-m", "acquisition", *arguments]
    with started(command, stdout=child, stderr=subprocess.PIPE, env=env) as process:
        os.close(child)
        output = b""
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            if select.select([parent], [], [], 0.1)[0]:
                try:
                    data = os.read(parent, 65536)
                except OSError:  # the other end is closed
                    break
                if not data:
                    break
                output += data
        assert process.wait(20) in (0, EXIT_UNAVAILABLE)  # time goes on: no host may be current any more
    os.close(parent)
    return output.decode()


def test_a_terminal_gets_colours_unless_it_wants_none(scene: Scene, addresses: str) -> None:
    arguments = ["query", "--latest", "--shards", addresses, "--host", "web1"]
    coloured = in_terminal(arguments, 80)
    assert "\x1b[" in coloured
    assert "web1 · host" in coloured.replace("\x1b[1m", "").replace("\x1b[0m", "")
    plain = in_terminal(arguments, 80, NO_COLOR="1")
    assert "\x1b[3" not in plain  # no colour; bold may stay


def test_names_cannot_move_the_cursor_or_style_the_table(cluster: Cluster, addresses: str, capsys: Capture) -> None:
    scene = Scene(cluster)
    now = int(time.time())
    scene.host("web1", [now], names=["\x1b[2J[red]evil[/red]\n", "fine"])
    assert query(addresses, "--latest") == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert len(out.splitlines()) == 5
    screen = in_terminal(["query", "--latest", "--shards", addresses], 120)
    assert "\x1b[2J" not in screen
    assert "[red]evil[/red]" in screen


def test_a_terminal_shows_what_matters_and_says_how_to_see_the_rest(cluster: Cluster, addresses: str) -> None:
    scene = Scene(cluster)
    now = int(time.time())
    scene.host("web1", [now], names=[f"worker-{number}" for number in range(30)])
    screen = in_terminal(["query", "--latest", "--shards", addresses], 80, NO_COLOR="1")
    lines = screen.splitlines()
    assert len(lines) <= 16
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()) for line in lines) <= 80
    assert "20 more entities: --top 0" in screen
    assert "more metrics: --metric '*'" in screen
    assert screen.count("worker-") == 10
    whole = in_terminal(["query", "--latest", "--top", "0", "--metric", "*", "--shards", addresses], 80, NO_COLOR="1")
    assert "more metrics" not in whole
    assert whole.count("worker-") == 30


def test_columns_have_the_same_names_in_a_terminal_and_in_a_pipe(scene: Scene, addresses: str, capsys: Capture) -> None:
    assert query(addresses, "--latest") == 0
    piped = capsys.readouterr().out.splitlines()[0].split()
    screen = in_terminal(["query", "--latest", "--shards", addresses], 140, NO_COLOR="1")
    title = next(line for line in screen.splitlines() if "ENTITY" in line)
    shown = [word for word in "".join(c if c.isupper() or c == "_" else " " for c in title).split() if len(word) > 1]
    assert shown == ["ENTITY", "METRIC", "MEAN", "DEVIATION", "TREND", "LAST", "VALIDITY"]
    assert set(shown) <= set(piped)
