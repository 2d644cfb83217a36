"""``shardpulse filter`` as a process: signals, configuration, credentials, kill -9."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from acquisition import compiled
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot.visibility.workers import read_workers
from acquisition.status.part_findings import of_filter
from acquisition.wire import keys
from acquisition.wire.records import smoothed
from filters.worker.step import native
from tests.support.feeder import Feeder
from tests.support.processes import catches, started
from tests.support.series import applied_sequence
from tests.support.waiting import PATIENCE, eventually

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(cluster: Cluster) -> Iterator[Start]:
    """``start(*options)`` runs the command against the session's shards."""
    running: list[subprocess.Popen[str]] = []

    def run(*options: str) -> subprocess.Popen[str]:
        shards = ",".join(str(address) for address in cluster.masters())
        command = [sys.executable, "-m", "acquisition", "filter", "--shards", shards, *options]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return running[-1]

    yield run
    for process in running:
        process.kill()
        process.communicate()


def applied(cluster: Cluster, feeder: Feeder, sequence: int) -> None:
    """Wait until the filter has applied a frame."""
    eventually(lambda: applied_sequence(cluster, feeder) >= sequence)


def feed(feeder: Feeder, first: int, last: int) -> None:
    for tick in range(first, last + 1):
        feeder.push(feeder.make(np.full((2, 2), float(tick)), float(tick)))


def mean_at(cluster: Cluster, feeder: Feeder, tick: int) -> float:
    key = keys.smoothed(feeder.tag, feeder.host, feeder.resource_set, (1_000_000 + tick) % keys.DEFAULT_KEEP_TICKS)
    return float(smoothed.decode(cluster.call(key, "GET", key)).planes["mean"][0, 0])


def line_with(process: subprocess.Popen[str], words: str) -> str:
    """The first line of stderr that has ``words``."""
    assert process.stderr is not None
    for line in process.stderr:
        if words in line:
            return line
    pytest.fail(f"the filter never said {words!r}")


def test_smooths_until_told_to_stop_and_counts(cluster: Cluster, start: Start) -> None:
    process = start("--json")
    feeder = Feeder(cluster)
    feed(feeder, 1, 5)
    applied(cluster, feeder, 5)
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert json.loads(out)["samples"] == 20


def test_a_full_disk_behind_stderr_stops_nothing(cluster: Cluster) -> None:
    command = [sys.executable, "-m", "acquisition", "filter", "--shards", str(cluster.masters()[0])]
    with open("/dev/full", "wb") as full, started([*command, "--seconds", "60"], stderr=full) as process:
        feeder = Feeder(cluster)
        feed(feeder, 1, 2)
        applied(cluster, feeder, 2)
        eventually(lambda: catches(process.pid, signal.SIGHUP))
        process.send_signal(signal.SIGHUP)  # about which it has something to say
        feed(feeder, 3, 4)
        applied(cluster, feeder, 4)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0


def test_kill_9_and_a_new_start_change_nothing(cluster: Cluster, start: Start) -> None:
    whole, parts = Feeder(cluster, host=7), Feeder(cluster, host=8)
    first = start()
    feed(whole, 1, 8)
    feed(parts, 1, 4)
    applied(cluster, whole, 8)
    applied(cluster, parts, 4)
    first.kill()
    first.wait()
    feed(parts, 5, 8)
    start()
    applied(cluster, parts, 8)
    assert mean_at(cluster, parts, 8) == mean_at(cluster, whole, 8)


def test_hang_up_with_a_bad_file_leaves_the_old_configuration(cluster: Cluster, start: Start, tmp_path: Path) -> None:
    config = tmp_path / "shardpulse.toml"
    config.write_text("[filter]\ntau_seconds = 1000.0\n")
    process = start("--config", str(config))
    feeder = Feeder(cluster)
    feed(feeder, 1, 1)
    applied(cluster, feeder, 1)
    config.write_text("[filter]\ntau_secs = 1.0\n")
    process.send_signal(signal.SIGHUP)
    said = line_with(process, "configuration unchanged")
    assert "tau_secs" in said
    feeder.push(feeder.make(np.full((2, 2), 101.0), 2.0))
    applied(cluster, feeder, 2)
    assert mean_at(cluster, feeder, 2) == pytest.approx(1.0 + 100.0 * (1.0 - np.exp(-1.0 / 1000.0)), rel=1e-5)


def test_hang_up_with_a_good_file_changes_the_time_constant(cluster: Cluster, start: Start, tmp_path: Path) -> None:
    config = tmp_path / "shardpulse.toml"
    config.write_text("[filter]\ntau_seconds = 1000.0\n")
    process = start("--config", str(config))
    feeder = Feeder(cluster)
    feed(feeder, 1, 1)
    applied(cluster, feeder, 1)
    config.write_text("[filter]\ntau_seconds = 1.0\n")
    process.send_signal(signal.SIGHUP)
    line_with(process, "configuration reloaded")
    feeder.push(feeder.make(np.full((2, 2), 101.0), 2.0))
    applied(cluster, feeder, 2)
    assert mean_at(cluster, feeder, 2) == pytest.approx(1.0 + 100.0 * (1.0 - np.exp(-1.0)), rel=1e-5)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("[filter]\nkernels = ['median']\n", 78, "median"),
        ("[filter]\ntau_seconds = -1\n", 78, "tau_seconds"),
        ("[filter.tau]\nno_such_metric = 3.0\n", 78, "no_such_metric"),
        ("", 66, "empty"),
    ],
)
def test_a_wrong_configuration_is_told(start: Start, tmp_path: Path, text: str, code: int, words: str) -> None:
    config = tmp_path / "shardpulse.toml"
    config.write_text(text)
    process = start("--config", str(config))
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert words in error


def test_no_shards_is_told(start: Start) -> None:
    process = start("--shards", "127.0.0.1:1", "--wait", "0.2")
    _, error = process.communicate(timeout=60)
    assert process.returncode == 69
    assert "127.0.0.1:1" in error


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stops_in_order_while_it_waits_for_shards(start: Start, number: int) -> None:
    process = start("--shards", "127.0.0.1:1", "--wait", "60")
    eventually(lambda: catches(process.pid, signal.SIGHUP))
    process.send_signal(signal.SIGHUP)
    process.send_signal(number)
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 0


@pytest.mark.parametrize("option", ["--wait", "--seconds"])
@pytest.mark.parametrize("value", ["nan", "-1", "inf", "soon"])
def test_times_that_are_none_are_refused(start: Start, option: str, value: str) -> None:
    process = start(f"{option}={value}")
    process.communicate(timeout=PATIENCE)
    assert process.returncode == 2


def test_hang_up_with_other_shards_moves_there(
    cluster: Cluster, start_cluster: Callable[..., Shards], tmp_path: Path
) -> None:
    def write(found: Cluster) -> None:
        text = ", ".join(f'"{address}"' for address in found.masters())
        config.write_text(f"[shards]\naddresses = [{text}]\n")

    config = tmp_path / "shardpulse.toml"
    write(cluster)
    command = [sys.executable, "-m", "acquisition", "filter", "--config", str(config)]
    with started(command, stderr=subprocess.PIPE, text=True) as process:
        here = Feeder(cluster)
        feed(here, 1, 1)
        applied(cluster, here, 1)
        elsewhere = start_cluster(1).connect()
        write(elsewhere)
        process.send_signal(signal.SIGHUP)
        line_with(process, "configuration reloaded")
        there = Feeder(elsewhere)
        feed(there, 1, 2)
        applied(elsewhere, there, 2)
        process.terminate()
        assert process.wait(timeout=PATIENCE) == 0
        elsewhere.close()


def test_shards_that_refuse_are_told(start_cluster: Callable[..., Shards], start: Start) -> None:
    running = start_cluster(1)
    admin = running.connect().connect(running.addresses[0])
    admin.call("CONFIG", "SET", "requirepass", "secret")
    process = start("--shards", str(running.addresses[0]), "--wait", "0.2")
    _, error = process.communicate(timeout=60)
    admin.close()
    assert process.returncode == 77
    assert "password_file" in error


@pytest.mark.parametrize("pure", ["", "1"])
def test_a_worker_says_which_step_computes(
    pure: str, cluster: Cluster, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(compiled.SWITCH, pure)
    line = line_with(start(), "smoothing")
    (worker,) = read_workers(cluster, read_layout(cluster)).workers
    assert worker.step == (compiled.NUMPY if pure or native.STEP is None else compiled.NATIVE)
    assert f"{worker.step} step" in line
    assert (f"{compiled.SWITCH} is set" in line) == bool(pure)


def test_workers_of_different_configurations_are_told_apart(cluster: Cluster, start: Start, tmp_path: Path) -> None:
    for number, tau in enumerate((5.0, 50.0)):
        config = tmp_path / f"{number}.toml"
        config.write_text(f"[filter]\ntau_seconds = {tau}\n")
        start("--config", str(config))

    def figures() -> list[str]:
        found = [worker.figures for worker in read_workers(cluster, read_layout(cluster)).workers]
        return found if len(found) == 2 else []

    one, other = eventually(figures)
    assert one != other
    workers = read_workers(cluster, read_layout(cluster))
    (told,) = [each.text for each in of_filter([], workers) if "different configurations" in each.text]
    assert "[filter] kernels, tau_seconds, tau or inputs" in told
    alike = workers._replace(workers=tuple(each._replace(figures=one) for each in workers.workers))
    assert not [each for each in of_filter([], alike) if "different configurations" in each.text]
