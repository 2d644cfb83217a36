"""The commands as a new user starts them: shards come, go, and come elsewhere while a probe, filter and service run.

Their state directory is this test's own, and so are their ports, as far as others leave any.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acquisition.errors import ShardError
from acquisition.shards.servers import machine
from acquisition.snapshot import SnapshotReader
from tests.support import ROOT
from tests.support.waiting import eventually

PATIENT = 60.0
LONG_RUNNING = {"filter": (), "probe": (), "serve": ("--bind", "127.0.0.1:0")}


class Home:
    """A user's configuration and state, and the commands that run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        config = path / "shardpulse.toml"
        config.write_text(
            f'[shards]\ndirectory = "{path / "state"}"\nmaxmemory_bytes = 67108864\n'
            f'[probe]\ninterval_seconds = 0.2\nposition_interval_seconds = 0.2\nring_path = "{path / "ring"}"\n'
            "[probe.processes]\nenabled = false\n[probe.vms]\nenabled = false\n[filter]\nlease_seconds = 1.0\n"
        )
        self.environment = {**os.environ, "SHARDPULSE_CONFIG": str(config)}
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "acquisition", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=PATIENT, cwd=ROOT, env=self.environment, check=False
        )

    def up(self) -> list[str]:
        """Start one shard at a port where there was none; answers its address."""
        (port,) = machine.free_ports(1)
        done = self.run("shards", "up", "--count", "1", "--base-port", str(port), "--json")
        assert done.returncode == 0, done.stderr
        return [shard["address"] for shard in json.loads(done.stdout)["shards"]]

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "acquisition", name, *arguments]
        with open(self.path / name, "ab") as log:
            self.running[name] = subprocess.Popen(
                command, stdout=subprocess.DEVNULL, stderr=log, cwd=ROOT, env=self.environment
            )
        return self.running[name]

    def said(self, name: str) -> list[str]:
        return (self.path / name).read_text().splitlines()

    def laments(self, name: str) -> int:
        """How often a command has said that there are no shards."""
        return sum("no shards are running on this machine" in line for line in self.said(name))

    def status(self) -> dict[str, Any] | None:
        """What ``status --json`` prints; None when it finds no shards."""
        done = self.run("status", "--json")
        if not done.stdout:
            assert "no shards are running on this machine" in done.stderr
            assert done.returncode == 69
            return None
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def story(self) -> str:
        """What every part has said, and the status."""
        said = {name: self.said(name) for name in self.running}
        return json.dumps({"said": said, "status": self.status()}, indent=1)

    def flows(self, addresses: list[str]) -> dict[str, Any] | None:
        """The status when frames of these shards are applied and nothing is wrong."""
        found = self.status()
        good = found is not None and found["verdict"] == "ok" and found["books"]["applied"] > 0
        return found if good and [shard["address"] for shard in found["shards"]] == addresses else None


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    found = Home(tmp_path)
    monkeypatch.setenv("SHARDPULSE_CONFIG", found.environment["SHARDPULSE_CONFIG"])
    yield found
    for process in found.running.values():
        process.kill()
        process.wait()
    found.run("shards", "down")


def test_everything_flows_again_when_shards_come_back_elsewhere(home: Home) -> None:
    for name, arguments in LONG_RUNNING.items():
        home.start(name, *arguments)
    for name in LONG_RUNNING:
        eventually(lambda name=name: home.laments(name) == 1, PATIENT, says=home.story)
    first = home.up()
    eventually(lambda: home.flows(first), PATIENT, says=home.story)
    with SnapshotReader.connect() as reader:
        eventually(lambda: reader.coherent().blocks, PATIENT, says=home.story)
        home.run("shards", "down")
        assert home.status() is None
        for name in LONG_RUNNING:
            eventually(lambda name=name: home.laments(name) == 2, PATIENT, says=home.story)
        second = home.up()
        assert second != first
        found = eventually(lambda: home.flows(second), PATIENT, says=home.story)
        assert [len(worker["partitions"]) for worker in found["workers"]] == [len(found["partitions"])]

        with contextlib.suppress(ShardError):  # of the connection before
            reader.coherent()
        eventually(lambda: reader.coherent().blocks, PATIENT, says=home.story)
    assert all(process.poll() is None for process in home.running.values())
    for name in LONG_RUNNING:
        lines = home.said(name)
        assert len(lines) <= 8, lines
        assert not any("MOVED" in line for line in lines)
    (told, again) = [line for line in home.said("filter") if "smoothing" in line]
    assert first[0] in told
    assert "step" in told
    assert second[0] in again
    (sending,) = [line for line in home.said("probe") if line.endswith(f"sending to shard {first[0]}")]
    assert "host every 0.2 s" in sending
    assert home.said("probe")[-1].endswith(f"sending again, to shard {second[0]}")
    assert "shards readable again" in home.said("serve")[-1]


@pytest.mark.parametrize(("name", "arguments"), LONG_RUNNING.items())
def test_waiting_for_shards_may_be_bounded(name: str, arguments: tuple[str, ...], home: Home) -> None:
    process = home.start(name, "--wait", "0.5", *arguments)
    assert process.wait(PATIENT) == 69
    assert "no shards are running on this machine" in home.said(name)[-1]


@pytest.mark.parametrize(("name", "arguments"), LONG_RUNNING.items())
def test_a_command_that_waits_for_shards_ends_when_told(name: str, arguments: tuple[str, ...], home: Home) -> None:
    process = home.start(name, *arguments)
    eventually(lambda: home.laments(name), PATIENT)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENT) == 0


def test_top_waits_for_shards_if_it_is_told_to(home: Home) -> None:
    assert home.start("top", "--wait", "0.5", "--once").wait(PATIENT) == 69
    process = home.start("top", "--wait", "60", "--once")
    eventually(lambda: "waiting for shards: no shards are running on this machine" in home.said("top")[-1], PATIENT)
    home.up()
    assert process.wait(PATIENT) == 75
    assert "no samples yet" in home.said("top")[-1]


def test_the_wait_option_is_the_same_everywhere(home: Home) -> None:
    texts = set()
    for name in LONG_RUNNING:
        words = home.run(name, "--help").stdout.rpartition("--wait S")[2].split()
        texts.add(" ".join(words[: words.index("forever)") + 1]))
    assert len(texts) == 1


def test_a_shard_that_is_added_is_no_trouble(home: Home) -> None:
    addresses = home.up()
    for name, arguments in LONG_RUNNING.items():
        home.start(name, *arguments)
    eventually(lambda: home.flows(addresses), PATIENT)
    before = {name: home.said(name) for name in LONG_RUNNING}
    assert home.run("shards", "add").returncode == 0
    eventually(lambda: (found := home.status()) is not None and found["verdict"] == "ok", PATIENT)
    assert {name: home.said(name) for name in LONG_RUNNING} == before
