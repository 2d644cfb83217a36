"""The demo as a user starts it: what it prints and measures, and that nothing of it stays behind.

Most of a demo is waiting, so demos of one test run side by side; one that has shown what it was started for is told to
stop, whatever time that took.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.local_shards import LocalShards
from acquisition.model.identity import host_id
from acquisition.shards.servers import machine
from acquisition.snapshot.reconcile import books
from acquisition.wire import keys
from tests.support import ROOT
from tests.support.terminal import Terminal
from tests.support.waiting import eventually

DEMO = str(ROOT / "deploy" / "demo")
SCRIPT = str(ROOT / "deploy" / "demo.py")
PATIENCE = 40.0


class Demo:
    """A demo that runs, and everything that belongs to it while it has values. ``log`` takes its stderr."""

    def __init__(
        self,
        log: Path,
        *arguments: str,
        command: tuple[str, ...] = (sys.executable, SCRIPT),
        stdout: int = subprocess.PIPE,
    ) -> None:
        self._log = log
        with open(log, "wb") as said:
            self.process = subprocess.Popen(
                [*command, *arguments],
                stdout=stdout,
                stderr=said,
                text=True,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # noqa: PLW1509  whatever nohup ignores
            )
        self._heard = 0  #: lines
        self.family: dict[int, int] = {}
        self.directory = Path()
        self.addresses: list[tuple[str, int]] = []

    @property
    def said(self) -> list[str]:
        """The lines on stderr so far."""
        return self._log.read_text().splitlines()

    def wait_for(self, words: str) -> None:
        """Until a line on stderr that has not been waited for holds ``words``."""
        eventually(lambda: self._hears(words), PATIENCE, says=lambda: f"{words!r} in {self.said}")

    def _hears(self, words: str) -> bool:
        ended = self.process.poll() is not None
        for line in self.said[self._heard :]:
            self._heard += 1
            if words in line:
                return True
        assert not ended, f"ended without saying {words!r}: {self.said}"
        return False

    def run(self) -> None:
        """Until it has values; notes what runs then."""
        self.wait_for("first smoothed value")
        self.survey()

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
            with contextlib.suppress(psutil.NoSuchProcess):
                if any(name in word for word in child.cmdline()):
                    return child.pid
        raise AssertionError(f"no {name} among the children")

    def kill(self, name: str) -> None:
        """Kill -9 the child whose command line holds ``name``."""
        os.kill(self.child(name), signal.SIGKILL)

    def cluster(self) -> Cluster:
        """Its shards."""
        return Cluster(LocalShards(str(self.directory / "shards")))

    def totals(self) -> books.Totals | None:
        """What its books say; None while a shard does not answer."""
        try:
            with contextlib.closing(self.cluster()) as cluster:
                return books.totals(books.read_books(cluster, read_layout(cluster)))
        except ShardpulseError:
            return None

    def flows_on(self) -> None:
        """Until the filter has applied frames some times more, and nothing is lost."""
        applied = set()

        def flows() -> bool:
            now = self.totals()
            if now is not None and not now.lost + now.missing:
                applied.add(now.applied)
            return len(applied) > 4

        eventually(flows, PATIENCE, says=lambda: f"{self.totals()}, {self.said}")

    def stop(self) -> None:
        """Tell it to end, as Ctrl-C does; notes what runs until then."""
        self.survey()
        self.process.send_signal(signal.SIGINT)

    def finish(self) -> tuple[int, str]:
        """Exit code and standard output."""
        output, _ = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output

    def document(self) -> dict[str, Any]:
        """The document of a demo that ends well."""
        code, output = self.finish()
        assert code == 0, self.said
        found: dict[str, Any] = json.loads(output)
        return found

    def assert_nothing_is_left(self, directory: bool = True) -> None:
        """No process (not even a zombie), no directory, no socket."""
        assert self.family
        eventually(
            lambda: not any(machine.start_time(pid) == start for pid, start in self.family.items()),
            says=lambda: [psutil.Process(pid).cmdline() for pid in self.family if psutil.pid_exists(pid)],
        )
        assert self.directory != Path()
        assert not directory or not self.directory.exists()
        for address in self.addresses:
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection(address, timeout=1).close()


def has_tools() -> bool:
    return all(map(shutil.which, ("vmstat", "pidstat")))


@pytest.fixture
def demo(tmp_path):
    started = []

    def start(*arguments: str, **options) -> Demo:
        started.append(Demo(tmp_path / f"said-{len(started)}", *arguments, **options))
        return started[-1]

    yield start
    for each in started:
        each.process.kill()
        each.process.wait()
        if each.process.stdout is not None:
            each.process.stdout.close()


def test_two_demos_side_by_side_say_what_they_measured(demo):
    both = [demo("--seconds", "8", "--json", command=(DEMO,)), demo("--seconds", "8", "--json")]
    with ThreadPoolExecutor() as side_by_side:  # one may be over before the other has values
        list(side_by_side.map(Demo.run, both))
    assert both[0].directory != both[1].directory
    assert not set(both[0].addresses) & set(both[1].addresses)
    for running in both:
        check(running.document())
        running.assert_nothing_is_left()


def check(result: dict[str, Any]) -> None:
    """The document of 8 seconds."""
    assert set(result) >= {
        "seconds", "hosts", "entities", "samples_in", "samples_smoothed", "samples_invalid", "samples_lost",
        "freshness_ms", "shards", "probe", "filter", "redis", "sources",
    }  # fmt: skip
    assert 7.5 < result["seconds"] < 12
    assert result["hosts"] == 1
    assert result["entities"] > 2
    assert result["samples_lost"] == result["samples_pending"] == 0
    parts = ("samples_smoothed", "samples_invalid", "samples_without_value")
    assert result["samples_in"] == sum(result[name] for name in parts)
    assert result["samples_smoothed"] > 50
    assert 0 < result["freshness_ms"]["p50"] <= result["freshness_ms"]["p99"] < 2000
    assert [shard["core"] for shard in result["shards"]] == machine.cores()
    assert all(shard["pinned"] and shard["memory_bytes"] > 1e6 for shard in result["shards"])
    assert sum(shard["frames"] for shard in result["shards"]) >= 10
    assert result["probe"]["ticks"] >= 4
    assert 0 < result["probe"]["cpu_percent"] < 50
    assert 1e6 < result["probe"]["pss_bytes"] < 40e6
    assert result["filter"]["pss_bytes"] > 1e6
    host, processes = ("vmstat", "pidstat") if has_tools() else ("procfs", "procfs")
    assert result["sources"] == [f"host: {host}", f"processes: {processes}", "vms: procfs"]
    assert bool(result["probe"]["children_cpu_percent"]) is has_tools()


@pytest.mark.quick
def test_lines_in_a_pipe(demo):
    running = demo("--seconds", "8", "--source", "procfs", "--interval", "0.5")
    running.run()
    code, output = running.finish()
    assert code == 0, running.said
    for words in ("host ", "cpu_user_ratio raw ", "process ", "shard 127.0.0.1:", " pinned ", "samples lost 0"):
        assert words in output
    assert "\x1b" not in output
    assert "processes: procfs" in output.splitlines()[-3]
    running.assert_nothing_is_left()


HOME = b"\x1b[H"  #: of the cursor: the screen is drawn anew
SHOWN = (b"smoothed", b"cpu_user", b"pinned", b"samples lost", b"freshness p50")


def test_a_terminal_is_redrawn_and_given_back(demo, monkeypatch):
    for name in ("LINES", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    running: dict[int, Demo] = {}
    for size in (24, 80), (50, 120):
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
        running[master] = demo("--interval", "0.5", stdout=slave)
        os.close(slave)
    shown = dict.fromkeys(running, b"")
    goes_on, told = set(running), set()
    deadline = time.monotonic() + PATIENCE
    while goes_on:
        for master in select.select(list(goes_on), [], [], 0.1)[0]:
            try:
                shown[master] += os.read(master, 65536)
            except OSError:  # EIO: the other side is closed
                os.close(master)
                goes_on.remove(master)
        for master in goes_on - told:
            enough = shown[master].count(HOME) >= 5 and all(words in shown[master] for words in SHOWN)
            if enough or time.monotonic() > deadline:
                told.add(master)
                running[master].process.terminate()
    for master, each in running.items():
        code, _ = each.finish()
        assert code == 0, each.said
        assert any("first smoothed value" in line for line in each.said)
        screen, left, after = shown[master].partition(b"\x1b[?1049l")
        assert left
        assert screen.count(HOME) >= 4
        for words in SHOWN:
            assert words in screen
        assert b"samples made of" in after


def test_no_message_stands_in_the_view():
    with viewed("--interval", "0.5") as terminal:
        shown = terminal.until(lambda text: re.search(r"applied [1-9]", text) and text)
        assert "first smoothed value" not in shown
        assert shown.splitlines()[-1].strip() == "" or "frames resent" in shown.rstrip().splitlines()[-1]
        os.kill(terminal.pid, signal.SIGTERM)
        assert terminal.end() == 0
        assert "first smoothed value" in terminal.said()


def viewed(*arguments: str, columns: int = 80) -> Terminal:
    """A demo in the foreground of a terminal of its own."""
    code = (
        f"import runpy, sys; sys.path.insert(0, {str(ROOT / 'deploy')!r}); runpy.run_path({SCRIPT!r}, None, '__main__')"
    )
    return Terminal(arguments, columns, 40, code)


def test_it_ends_with_its_terminal(demo):
    with viewed() as terminal:
        terminal.until(lambda text: "samples lost 0" in text)
        family = [child.pid for child in psutil.Process(terminal.pid).children(recursive=True)]
        terminal.hang_up()  # with SIGHUP
        terminal.process.wait(PATIENCE)
        eventually(lambda: terminal.state() in ("", "Z"), PATIENCE)
        eventually(lambda: not any(map(psutil.pid_exists, family)), PATIENCE)
    master, slave = pty.openpty()  # not its session's terminal: without SIGHUP
    running = demo(stdout=slave)
    os.close(slave)
    shown = b""
    while b"samples lost" not in shown:
        shown += os.read(master, 65536)
    running.survey()
    os.close(master)
    code, _ = running.finish()
    assert code == 1
    assert "cannot write output" in running.said[-1]
    running.assert_nothing_is_left()


def test_nohup_lets_it_live_without_its_terminal(demo):
    running = demo("--json", command=("nohup", sys.executable, SCRIPT))
    running.run()
    running.process.send_signal(signal.SIGHUP)
    running.flows_on()
    running.stop()
    assert running.document()["samples_lost"] == 0
    running.assert_nothing_is_left()


def test_a_signal_stops_everything_in_order(demo):
    each = {number: demo("--json", command=(DEMO,)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number, running in each.items():
        running.run()
        running.process.send_signal(number)
        began = time.monotonic()
        result = running.document()
        assert time.monotonic() - began < 10
        assert result["samples_lost"] == 0
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
    eventually(lambda: arguments.read_bytes().split(b"\0")[1:2] == [SCRIPT.encode()], PATIENCE)
    running.process.terminate()
    code, _ = running.finish()
    assert code == 0, running.said


def test_killed_children_are_started_again_and_nothing_is_lost(demo):
    running = demo("--json", "--interval", "0.5")
    running.run()
    running.kill("filter")
    running.wait_for("filter was killed by SIGKILL: starting it again")
    running.kill("shardpulse: probe")
    running.wait_for("probe was killed by SIGKILL: starting it again")
    running.wait_for("sampling")
    running.flows_on()
    running.stop()
    result = running.document()
    assert result["restarts"]["filter"] == result["restarts"]["probe"] == 1
    assert result["samples_lost"] == 0
    running.assert_nothing_is_left()


def test_a_loss_is_seen_and_made_good(demo):
    running = demo("--json", "--source", "procfs", "--interval", "0.5")
    running.run()
    with contextlib.closing(running.cluster()) as cluster:
        layout = read_layout(cluster)
        stream = keys.raw(layout.tag_of(host_id(socket.gethostname())))
        filter_ = running.child("filter")
        os.kill(filter_, signal.SIGSTOP)
        known = {entry[0] for entry in cluster.call(stream, "XRANGE", stream, "-", "+")}
        # the first new entry may be in the filter's socket already
        eventually(lambda: len(entries_beyond(cluster, stream, known)) > 3)
        assert cluster.call(stream, "XTRIM", stream, "MINID", entries_beyond(cluster, stream, known)[3]) > 2
        made = running.totals().made
        eventually(lambda: running.totals().made > made)  # the probe's status names an entry behind it
        os.kill(filter_, signal.SIGCONT)
    running.flows_on()
    running.stop()
    result = running.document()
    assert result["samples_lost_at_worst"] > 0
    assert result["frames_resent"] > 0
    assert result["samples_lost"] == result["samples_pending"] == 0
    running.assert_nothing_is_left()


def entries_beyond(cluster: Cluster, stream: str, known: set[bytes]) -> list[bytes]:
    return [entry[0] for entry in cluster.call(stream, "XRANGE", stream, "-", "+") if entry[0] not in known]


STUCK = {
    "filter": "samples are pending: the filter has not applied them",
    "redis-server": "does not answer",
    "shardpulse: probe": "the probe had sampled nothing for",
}


def test_a_part_that_is_stuck_is_named_and_fails(demo):
    each = {part: demo("--json", "--source", "procfs", "--shards", "1") for part in STUCK}
    for part, running in each.items():
        running.run()
        os.kill(running.child(part), signal.SIGSTOP)
    for part, running in each.items():
        running.wait_for("does not answer" if part == "redis-server" else "nothing for seconds: is it stopped?")
        running.process.terminate()
        began = time.monotonic()
        code, output = running.finish()
        assert time.monotonic() - began < 30  # it does not wait for what is stopped
        assert code == 1, running.said
        assert any(STUCK[part] in line for line in running.said if "error: " in line), running.said
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
    said = "\n".join(running.said)
    assert code == 1
    assert "error: cannot write output: No space left on device" in said
    assert "Traceback" not in said


@pytest.mark.needs("vmstat", "pidstat")
def test_a_killed_tool_of_the_probe(demo):
    running = demo("--json")
    running.run()
    running.kill("pidstat")
    running.kill("shardpulse: probe")  # vmstat has no parent now
    running.wait_for("probe was killed by SIGKILL: starting it again")
    running.wait_for("sampling")
    running.flows_on()
    running.stop()
    assert running.document()["samples_lost"] == 0
    running.assert_nothing_is_left()


def test_a_killed_shard_comes_back(demo):
    running = demo("--json", "--interval", "0.5", "--shards", "1")
    running.run()
    running.kill("redis-server")
    running.wait_for("has died: starting it again, empty")
    running.flows_on()
    running.stop()
    result = running.document()
    assert result["samples_lost"] == 0
    assert result["shards"][0]["pinned"]
    assert result["restarts"][f"shard {result['shards'][0]['address']}"] == 1
    running.assert_nothing_is_left()


def test_a_killed_demo_takes_its_processes_with_it(demo, monkeypatch):
    running = demo("--json")
    running.run()
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


def test_a_reader_that_goes_away_stops_it(demo):
    running = demo()
    running.run()
    running.process.stdout.readline()
    running.process.stdout.close()
    assert running.process.wait(PATIENCE) == 0
    running.assert_nothing_is_left()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--seconds", "0"], "is not in the range 0.001 to"),
        (["--seconds", "nan"], "is not in the range 0.001 to"),
        (["--interval", "0.001"], "is not in the range 0.01 to 3600"),
        (["--shards", "-1"], "is not in the range 1 to 65535"),
        (["--shards", "1000"], "too many shards for"),
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
