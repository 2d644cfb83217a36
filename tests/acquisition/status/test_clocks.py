"""An NTP step, or a clock that is a day off, where somebody reads: he is told that it is his clock."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.states import CURRENT, DOWN
from acquisition.snapshot.visibility import clocks
from acquisition.status import health
from acquisition.status.finding import STALE
from tests.support.scene import Scene
from tests.support.waiting import PATIENCE

DAY = 86400.0
HOSTS = ("web-1", "web-2")


def stepped(seconds: float, clock: Callable[[], float] = time.time) -> Callable[[], float]:
    return lambda: clock() + seconds


@pytest.mark.parametrize(("step", "word"), [(60.0, "ahead of"), (DAY, "ahead of"), (-60.0, "behind"), (-DAY, "behind")])
def test_a_reader_whose_clock_is_stepped_calls_nobody_down(
    shards: Shards, cluster: Cluster, step: float, word: str
) -> None:
    scene = Scene(cluster)
    clock = [0.0]
    with SnapshotReader(shards.connect(), clock=lambda: time.time() + clock[0]) as reader:
        for host in HOSTS:
            scene.host(host, range(int(time.time()) - 2, int(time.time()) + 1))
        reader.coherent()
        clock[0] = step
        snapshot = reader.coherent()
        assert not {block.state for block in snapshot.blocks} & {CURRENT, DOWN}
        told = re.search(r"the clock of this reader is (\d+) s (ahead of|behind) those of the shards", snapshot.blind)
        assert told is not None, snapshot.blind
        assert (told[2], float(told[1])) == (word, pytest.approx(abs(step), abs=30.0))
        clock[0] = 0.0
        for host in HOSTS:
            scene.host(host, range(int(time.time()) - 2, int(time.time()) + 120))
        assert {block.state for block in reader.latest().blocks} == {CURRENT}


@pytest.mark.parametrize("step", [0.8, 3.0, 5.0, DAY, -0.8, -3.0, -5.0, -DAY])
def test_readings_name_wrong_clock_and_no_age_is_negative(
    shards: Shards, cluster: Cluster, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    for host in HOSTS:
        Scene(cluster).host(host, range(int(now) - 2, int(now) + 1))
    monkeypatch.setattr(time, "time", stepped(step, time.time))
    word = f"{abs(step):.1f}"[:3] if abs(step) < 10.0 else "864"
    with SnapshotReader(shards.connect(), clock=time.time) as reader:
        for snapshot in (reader.coherent(), reader.coherent(), reader.latest(), reader.newest()):
            told = [error for error in snapshot.errors if f"the clock of this reader is {word}" in error]
            assert len(told) == 1, snapshot.errors
            assert ("ahead of" if step > 0 else "behind") in told[0]
            assert "this reader's clock is wrong" in told[0]  # both shards agree
            assert all(block.age_seconds >= 0.0 for block in snapshot.blocks)
            assert all(block.at(snapshot.now).age_seconds >= 0.0 for block in snapshot.blocks)


@pytest.mark.parametrize("step", [3.0, -DAY])
def test_commands_of_a_machine_whose_clock_is_off_name_it(
    shards: Shards, cluster: Cluster, step: float, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import time\nreal = time.time\ntime.time = lambda: real() + {step}\n")
    for host in HOSTS:
        Scene(cluster).host(host, range(int(time.time()) - 2, int(time.time()) + 1), resource_set="host", names=[host])
    address = ",".join(map(str, shards.addresses))
    for words in (["query", "hot"], ["query"], ["top", "--once"], ["metrics"], ["status", "--json"]):
        done = subprocess.run(
            [sys.executable, "-m", "acquisition", *words, "--shards", address],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
            env=os.environ | {"PYTHONPATH": str(tmp_path)},
        )  # fmt: skip
        assert done.returncode == (76 if words[0] == "status" else 69), (words, done.stderr)  # a scene has no books
        assert f"{abs(step):.0f}"[:4] in done.stderr + done.stdout
        assert "the clock of this" in done.stderr + done.stdout
        assert "age -" not in done.stdout


def test_whose_clock_is_off_is_said_where_it_can_be_known() -> None:
    assert clocks.suspect({"a": 3.0}, 3.2, 0.5) == clocks.READER
    assert clocks.suspect({"a": 3.0}, 0.3, 0.5) == clocks.SHARD
    assert clocks.suspect({"a": 0.7}, 0.9, 0.5) == ""
    assert clocks.suspect({"a": 0.0, "b": -5.0}, 0.2, 0.5) == clocks.SHARD
    assert clocks.suspect({"a": 0.7, "b": 0.7}, 0.9, 0.5) == clocks.READER


@pytest.mark.parametrize(("step", "word"), [(DAY, "ahead of"), (-DAY, "behind")])
def test_status_says_whose_clock_is_off(shards: Shards, cluster: Cluster, step: float, word: str) -> None:
    with Members(shards.addresses, None, 2.0) as members:
        told = [each for each in health.read(cluster, members, {}, wall=stepped(step)).findings if "clock" in each.text]
        assert [each.kind for each in told] == [STALE] * len(shards.addresses)
        assert all(f"s {word} it" in each.text for each in told)
        assert not any("clock" in each.text for each in health.read(cluster, members, {}).findings)
