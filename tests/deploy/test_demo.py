"""The demo as a user starts it: what it prints and measures, and that nothing of it stays behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from acquisition.link.cluster import Cluster, read_layout
from acquisition.link.resp import Address
from acquisition.model.identity import host_id
from acquisition.shards import machine
from acquisition.wire import keys
from tests.support import ROOT

DEMO = str(ROOT / "deploy" / "demo")
SCRIPT = str(ROOT / "deploy" / "demo.py")
PATIENCE = 40.0


class Demo:
    """A demo that runs, and everything that belongs to it while it has values."""

    def __init__(
        self, *arguments: str, command: tuple[str, ...] = (sys.executable, SCRIPT), stdout: int = subprocess.PIPE
    ) -> None:
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=stdout, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self.said: list[str] = []
        self.family: dict[int, int] = {}
        self.directory = Path()
        self.addresses: list[tuple[str, int]] = []

    def wait_for(self, words: str) -> str:
        """The first line on stderr that holds ``words``."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if words in line:
                return line
        raise AssertionError(f"ended without saying {words!r}: {''.join(self.said)}")

    def survey(self) -> None:
        """Note what runs and where it keeps its files."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # killed by a test, and a zombie for a moment
                words = child.cmdline()
                self.family[child.pid] = machine.start_time(child.pid) or 0
                self.directory = next(
                    (Path(word).parent for word in words if word.endswith("/shardpulse.toml")), self.directory
                )
        state = json.loads((self.directory / "shards" / "shards.json").read_text())
        self.addresses = [(shard["host"], shard["port"]) for shard in state["shards"]]

    def child(self, name: str) -> int:
        """The pid of the child whose command line holds ``name``."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            if any(name in word for word in child.cmdline()):
                return child.pid
        raise AssertionError(f"no {name} among the children")

    def finish(self) -> tuple[int, str]:
        """Exit code and standard output."""
        output, said = self.process.communicate(timeout=PATIENCE)
        self.said.append(said)
        return self.process.returncode, output

    def assert_nothing_is_left(self, directory: bool = True) -> None:
        """No process (not even a zombie), no directory, no socket."""
        assert self.family
        left = wait_until(lambda: not any(machine.start_time(pid) == start for pid, start in self.family.items()))
        assert left, [psutil.Process(pid).cmdline() for pid in self.family if psutil.pid_exists(pid)]
        assert self.directory != Path()
        assert not directory or not self.directory.exists()
        for address in self.addresses:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, timeout=1).close()


def wait_until(condition: Callable[[], object], seconds: float = 5.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def has_tools() -> bool:
    return all(map(shutil.which, ("vmstat", "pidstat")))


@pytest.fixture
def demo():
    started = []

    def start(*arguments: str, **options) -> Demo:
        started.append(Demo(*arguments, **options))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.process.kill()
        each.process.communicate()


def test_the_document(demo):
    running = demo("--seconds", "6", "--json", command=(DEMO,))
    running.wait_for("first smoothed value")
    running.survey()
    code, output = running.finish()
    assert code == 0, running.said
    result = json.loads(output)
    assert set(result) >= {
        "seconds", "hosts", "entities", "samples_in", "samples_smoothed", "samples_invalid", "samples_lost",
        "freshness_ms", "shards", "probe", "filter", "redis", "sources",
    }  # fmt: skip
    assert 5.5 < result["seconds"] < 9
    assert result["hosts"] == 1
    assert result["entities"] > 2
    assert result["samples_lost"] == result["samples_pending"] == 0
    assert result["samples_in"] == result["samples_smoothed"] + result["samples_invalid"]
    assert result["samples_smoothed"] > 50
    assert 0 < result["freshness_ms"]["p50"] <= result["freshness_ms"]["p99"] < 2000
    assert [shard["core"] for shard in result["shards"]] == machine.cores()
    assert all(shard["pinned"] and shard["memory_bytes"] > 1e6 for shard in result["shards"])
    assert sum(shard["frames"] for shard in result["shards"]) >= 6
    assert result["probe"]["ticks"] >= 4
    assert 0 < result["probe"]["cpu_percent"] < 50
    assert 1e6 < result["probe"]["pss_bytes"] < 40e6
    assert result["filter"]["pss_bytes"] > 1e6
    host, processes = ("vmstat", "pidstat") if has_tools() else ("procfs", "procfs")
    assert result["sources"] == [f"host: {host}", f"processes: {processes}", "vms: procfs"]
    assert bool(result["probe"]["children_cpu_percent"]) is has_tools()
    running.assert_nothing_is_left()


@pytest.mark.quick
def test_lines_in_a_pipe(demo):
    running = demo("--seconds", "8", "--source", "procfs", "--interval", "0.5")
    running.wait_for("first smoothed value")
    running.survey()
    code, output = running.finish()
    assert code == 0, running.said
    for words in ("host ", "cpu_user_ratio raw ", "process ", "shard 127.0.0.1:", " pinned ", "samples lost 0"):
        assert words in output
    assert "\x1b" not in output
    assert "processes: procfs" in output.splitlines()[-2]
    running.assert_nothing_is_left()


@pytest.mark.parametrize("size", [(24, 80), (50, 120)])
def test_a_terminal_is_redrawn_and_given_back(demo, size, monkeypatch):
    for name in ("LINES", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    running = demo("--seconds", "8", "--interval", "0.5", stdout=slave)
    os.close(slave)
    shown = b""
    with contextlib.suppress(OSError):  # EIO: the other side is closed
        while data := os.read(master, 65536):
            shown += data
    os.close(master)
    code, _ = running.finish()
    assert code == 0, running.said
    assert "first smoothed value" in running.said[-1]
    screen, left, after = shown.partition(b"\x1b[?1049l")
    assert left
    assert screen.count(b"\x1b[H") >= 2
    for words in (b"smoothed", b"cpu_user", b"pinned", b"samples lost", b"freshness p50"):
        assert words in screen
    assert b"samples made of" in after


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_everything_in_order(demo, number):
    running = demo("--json", command=(DEMO,))
    running.wait_for("first smoothed value")
    running.survey()
    running.process.send_signal(number)
    began = time.monotonic()
    code, output = running.finish()
    assert time.monotonic() - began < 10
    assert code == 0, running.said
    assert json.loads(output)["samples_lost"] == 0
    running.assert_nothing_is_left()


def test_a_signal_while_it_starts(demo):
    running = demo("--json")
    running.wait_for("shards run")
    running.process.terminate()
    code, output = running.finish()
    assert code == 0, running.said
    assert json.loads(output)["seconds"] < 5


def test_a_signal_before_it_listens(demo):
    running = demo("--json", command=(DEMO,))
    arguments = Path(f"/proc/{running.process.pid}/cmdline")
    assert wait_until(lambda: arguments.read_bytes().split(b"\0")[1:2] == [SCRIPT.encode()], PATIENCE)
    running.process.terminate()
    code, _ = running.finish()
    assert code == 0, running.said


def test_killed_children_are_started_again_and_nothing_is_lost(demo):
    running = demo("--seconds", "14", "--json", "--interval", "0.5")
    running.wait_for("first smoothed value")
    running.survey()
    os.kill(running.child("filter"), signal.SIGKILL)
    running.wait_for("filter was killed by SIGKILL: starting it again")
    os.kill(running.child("shardpulse: probe"), signal.SIGKILL)
    running.wait_for("probe was killed by SIGKILL: starting it again")
    time.sleep(2.0)
    running.survey()
    code, output = running.finish()
    assert code == 0, running.said
    result = json.loads(output)
    assert result["restarts"]["filter"] == result["restarts"]["probe"] == 1
    assert result["samples_lost"] == 0
    running.assert_nothing_is_left()


def test_a_loss_is_seen_and_made_good(demo):
    running = demo("--seconds", "14", "--json", "--source", "procfs", "--interval", "0.5")
    running.wait_for("first smoothed value")
    running.survey()
    with contextlib.closing(Cluster([Address(*running.addresses[0])])) as cluster:
        layout = read_layout(cluster)
        stream = keys.raw(layout.tag_of(host_id(socket.gethostname())))
        filter_ = running.child("filter")
        os.kill(filter_, signal.SIGSTOP)
        known = {entry[0] for entry in cluster.call(stream, "XRANGE", stream, "-", "+")}
        # the first new entry may be in the filter's socket already
        assert wait_until(lambda: len(entries_beyond(cluster, stream, known)) > 2)
        assert cluster.call(stream, "XDEL", stream, entries_beyond(cluster, stream, known)[2]) == 1
        time.sleep(2.5)  # the probe's status, written every two seconds, names an entry behind it
        os.kill(filter_, signal.SIGCONT)
    code, output = running.finish()
    assert code == 0, running.said
    result = json.loads(output)
    assert result["samples_lost_at_worst"] > 0
    assert result["frames_resent"] > 0
    assert result["samples_lost"] == result["samples_pending"] == 0
    running.assert_nothing_is_left()


def entries_beyond(cluster: Cluster, stream: str, known: set[bytes]) -> list[bytes]:
    return [entry[0] for entry in cluster.call(stream, "XRANGE", stream, "-", "+") if entry[0] not in known]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("filter", "samples are pending: the filter has not applied them"),
        ("redis-server", "does not answer"),
        ("shardpulse: probe", "the probe had sampled nothing for"),
    ],
)
def test_a_part_that_is_stuck_is_named_and_fails(demo, part, words):
    running = demo("--json", "--source", "procfs", "--shards", "1")
    running.wait_for("first smoothed value")
    running.survey()
    os.kill(running.child(part), signal.SIGSTOP)
    running.wait_for("does not answer" if part == "redis-server" else "nothing for seconds: is it stopped?")
    running.process.terminate()
    began = time.monotonic()
    code, output = running.finish()
    assert time.monotonic() - began < 8
    assert code == 1, running.said
    assert words in running.said[-1]
    result = json.loads(output)
    if part == "shardpulse: probe":
        assert result["probe"]["missed_ticks"] >= 3
    running.assert_nothing_is_left()


def test_too_short_for_a_sample(demo):
    running = demo("--seconds", "0.01", "--json", "--interval", "30")
    code, output = running.finish()
    assert code == 1
    assert "no sample yet" in running.said[-1]
    assert "Totals" not in running.said[-1]
    result = json.loads(output)
    for key in ("entities", "samples_in", "samples_lost", "samples_lost_at_worst", "frames_resent", "hosts"):
        assert result[key] is None, key
    assert result["probe"]["cpu_percent"] is None


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_output_that_cannot_be_written(demo, arguments):
    with open("/dev/full", "w") as full:
        running = demo("--seconds", "4", *arguments, stdout=full.fileno())
        code, _ = running.finish()
    said = "".join(running.said)
    assert code == 1
    assert "error: the output cannot be written: No space left on device" in said
    assert "Traceback" not in said


@pytest.mark.alone
@pytest.mark.needs("vmstat", "pidstat")
def test_a_killed_tool_of_the_probe(demo):
    running = demo("--seconds", "6", "--json")
    running.wait_for("first smoothed value")
    running.survey()
    os.kill(running.child("pidstat"), signal.SIGKILL)
    os.kill(running.child("shardpulse: probe"), signal.SIGKILL)  # vmstat has no parent now
    code, output = running.finish()
    assert code == 0, running.said
    assert json.loads(output)["samples_lost"] == 0
    running.assert_nothing_is_left()


def test_a_killed_shard_comes_back(demo):
    running = demo("--seconds", "12", "--json", "--interval", "0.5", "--shards", "1")
    running.wait_for("first smoothed value")
    running.survey()
    os.kill(running.child("redis-server"), signal.SIGKILL)
    running.wait_for("has died: starting it again, empty")
    assert wait_until(lambda: running.survey() is None)
    code, output = running.finish()
    assert code == 0, running.said
    result = json.loads(output)
    assert result["samples_lost"] == 0
    assert result["shards"][0]["pinned"]
    assert result["restarts"][f"shard {result['shards'][0]['address']}"] == 1
    running.assert_nothing_is_left()


def test_a_killed_demo_takes_its_processes_with_it(demo, monkeypatch):
    running = demo("--json")
    running.wait_for("first smoothed value")
    running.survey()
    running.process.kill()
    running.finish()
    running.assert_nothing_is_left(directory=False)
    # its directory stays: nobody was there to remove it; the next demo does
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    import workspace

    assert running.directory.exists()
    os.utime(running.directory, (1, 1))
    with workspace.workspace() as other:
        assert not running.directory.exists()
        assert other.exists()
    assert not other.exists()


def test_a_directory_in_use_is_not_swept(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    import workspace

    with workspace.workspace() as first:
        os.utime(first, (1, 1))
        with workspace.workspace() as second:
            assert first.exists()
            assert second.exists()


def test_two_demos_side_by_side(demo):
    both = [demo("--seconds", "5", "--json"), demo("--seconds", "5", "--json")]
    for running in both:
        running.wait_for("first smoothed value")
        running.survey()
    for running in both:
        code, output = running.finish()
        assert code == 0, running.said
        assert json.loads(output)["samples_lost"] == 0
        running.assert_nothing_is_left()
    assert both[0].directory != both[1].directory
    assert not set(both[0].addresses) & set(both[1].addresses)


def test_a_reader_that_goes_away_stops_it(demo):
    running = demo()
    running.wait_for("first smoothed value")
    running.survey()
    running.process.stdout.readline()
    running.process.stdout.close()
    assert running.process.wait(PATIENCE) == 0
    running.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seconds", "0"], "is no positive number"),
        (["--seconds", "nan"], "is no positive number"),
        (["--interval", "0.001"], "is not 0.01 to 3600"),
        (["--shards", "-1"], "is not 1 to 1000"),
        (["--shards", "1000"], "1000 shards are too many"),
        (["--source", "psutil"], "invalid choice"),
        (["--what"], "unrecognized arguments"),
    ],
)
def test_a_wrong_command_line(arguments, words):
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert words in done.stderr


def test_help_teaches():
    done = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
    assert done.returncode == 0
    for words in ("usage: deploy/demo", "examples:", "exit codes:", "--source"):
        assert words in done.stdout


def test_without_a_redis_server_it_says_what_to_install(tmp_path):
    environment = {**os.environ, "SHARDPULSE_REDIS_SERVER": str(tmp_path / "none")}
    done = subprocess.run([sys.executable, SCRIPT], capture_output=True, text=True, env=environment)
    assert done.returncode == 69
    assert "apt install redis-server" in done.stderr
