"""``shardpulse top`` on a real pseudo-terminal, on real shards with a real filter."""

from __future__ import annotations

import math
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len

from acquisition.link.layouts import write_layout
from acquisition.model import codes
from acquisition.shards.servers.launch import Shards
from acquisition.wire.keys import DEFAULT_PARTITIONS
from tests.support.emptied import flush
from tests.support.fleet import FleetHost
from tests.support.terminal import ROOT, Terminal
from tests.support.waiting import eventually

#: name, guests, programs, CPU use.
HOSTS = (
    ("hot", 30, (), 0.93), ("warm", 3, (), 0.75), ("cool", 0, ("init", "web server", "db"), 0.2),
    ("unsure", 2, (), 0.5), ("late", 2, (), 0.4), ("gone", 2, (), 0.3),
)  # fmt: skip


class Plant:
    """Hosts that are sampled every second; "late" stands still while ``late`` is set, "gone" ended long ago."""

    def __init__(self, shards: Shards, config: Path) -> None:
        config.write_text("[snapshot]\ndown_after_seconds = 5.0\n")
        self.config = str(config)
        self.started = time.monotonic()
        self.addresses = ",".join(map(str, shards.addresses))
        self.late = threading.Event()
        self._end = threading.Event()
        self._cluster = shards.connect(30.0)
        flush(self._cluster, shards.addresses)
        write_layout(self._cluster, DEFAULT_PARTITIONS)
        self._machines = {name: FleetHost(self._cluster, name, vms, programs) for name, vms, programs, _ in HOSTS}
        self._machines["gone"].push(time.time() - 60, 0.3)
        self._filter = subprocess.Popen(
            [sys.executable, "-m", "acquisition", "filter", "--shards", self.addresses],
            cwd=ROOT, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            wall = time.time()
            for name, _, _, busy in HOSTS:
                if name == "gone" or (name == "late" and self.late.is_set()):
                    continue
                invalid = {(0, "cpu_idle_ratio"): codes.RANGE} if name == "unsure" else None
                self._machines[name].push(wall, busy, invalid)
            self._end.wait(math.floor(wall) + 1.2 - time.time())

    def close(self) -> None:
        self._end.set()
        self._thread.join()
        self._filter.terminate()
        self._filter.wait()
        self._cluster.close()


@pytest.fixture(scope="module")
def plant(shards: Shards, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Plant]:
    plant = Plant(shards, tmp_path_factory.mktemp("top") / "shardpulse.toml")
    yield plant
    plant.close()


@pytest.fixture
def top(plant: Plant) -> Iterator[Callable[..., Terminal]]:
    """Starts the command and waits until it shows hosts."""
    started: list[Terminal] = []

    def start(*arguments: str, wait: str = "hot", **options: str) -> Terminal:
        terminal = Terminal(["top", "--shards", plant.addresses, "--config", plant.config, *arguments], **options)  # type: ignore[arg-type]
        started.append(terminal)
        if wait:
            terminal.until(lambda text: wait in text and "current" in text)
        return terminal

    yield start
    for terminal in started:
        terminal.__exit__()


def row_of(text: str, name: str) -> str:
    return next((line for line in text.splitlines() if re.match(rf"[ ▸>]{name}\b", line)), "")


def fits(text: str, columns: int = 80) -> bool:
    return all(cell_len(line) <= columns for line in text.splitlines())


def test_from_hosts_to_a_vm_and_back(top: Callable[..., Terminal], plant: Plant) -> None:
    terminal = top()
    text = terminal.until(lambda text: "93.0%" in row_of(text, "hot") and "down, seen" in row_of(text, "gone"))
    assert "shards 2 of 2" in text
    assert fits(text)
    assert len(terminal.lines) == 24
    assert terminal.alternate
    assert not terminal.cursor
    assert [line[1:5] for line in text.splitlines()[3:5]] == ["hot ", "warm"]
    assert "missing" in row_of(text, "unsure")
    assert "RANGE" in row_of(text, "unsure")
    assert "75.0%" in row_of(text, "warm")

    terminal.press("\r")
    text = terminal.until(lambda text: "hot · vms  30 rows" in text and "hot-vm-29" in text)
    assert fits(text)
    terminal.press("\x1b[B\r")
    text = terminal.until(lambda text: "hot-vm-28" in text and "vcpu_count" in text)
    assert "2.00 GiB" in row_of(text, "memory_assigned")
    terminal.press("\x1b")
    terminal.until(lambda text: "▸hot-vm-28" in text)
    terminal.press("\t")
    terminal.until(lambda text: "hot · host" in text and "cpu_iowait" in text)
    terminal.press("\x1b")
    terminal.until(lambda text: row_of(text, "warm") != "")

    terminal.press("/cool\r")
    terminal.until(lambda text: "filter: cool" in text and not row_of(text, "warm"))
    terminal.press("\r")
    text = terminal.until(lambda text: "cool · processes  3 rows" in text and "web server" in text)
    assert "1001" in row_of(text, "web server")
    terminal.press("h?")
    terminal.until(lambda text: "KEYS" in text and "COLUMNS" in text)
    terminal.press("2")
    terminal.until(lambda text: "books balanced" in text and "1 worker" in text and plant.addresses[:9] in text)
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.is_restored
    assert terminal.said() == ""


def test_a_late_host_loses_its_figures_and_has_a_gap_afterwards(top: Callable[..., Terminal], plant: Plant) -> None:
    terminal = top()
    terminal.until(lambda text: "40.0%" in row_of(text, "late"))
    terminal.until(lambda text: "1 down" in text)
    plant.late.set()
    try:
        text = terminal.until(lambda text: "late, seen" in row_of(text, "late"))
        assert "40.0%" not in row_of(text, "late")
        assert "1 late, 1 down" in text
    finally:
        plant.late.clear()
    text = terminal.until(lambda text: "40.0%" in row_of(text, "late"))
    assert "?" in row_of(text, "late")


def test_a_screen_that_opens_shows_what_the_filter_kept(top: Callable[..., Terminal], plant: Plant) -> None:
    time.sleep(max(0.0, plant.started + 8 - time.monotonic()))
    terminal = top()
    assert row_of(terminal.text, "hot").count("█") >= 8, "raw and smoothed"
    terminal.press("\r")
    terminal.until(lambda text: row_of(text, "hot-vm-29").count("█") >= 10, 4.5)


def test_pause_and_order(top: Callable[..., Terminal]) -> None:
    terminal = top("--reverse")
    terminal.until(lambda text: text.splitlines()[3][1:5] == "cool")
    terminal.press("pn")
    first = terminal.until(lambda text: "PAUSED" in text and text.splitlines()[4][1:5] == "cool")
    later = terminal.until(lambda text: re.search(r"PAUSED, [1-9]", text) and text)
    assert row_of(later, "hot") == row_of(first, "hot")
    terminal.press(" ")
    terminal.until(lambda text: "PAUSED" not in text)


@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "Ctrl-C", "Ctrl-\\"])
def test_the_terminal_is_restored_when_it_is_told_to_stop(top: Callable[..., Terminal], how: str) -> None:
    terminal = top(wait="" if how == "SIGHUP" else "hot")
    terminal.until(lambda text: terminal.alternate)
    assert not terminal.is_restored
    if how.startswith("SIG"):
        os.kill(terminal.pid, signal.Signals[how])
    else:
        terminal.press("\x03" if how == "Ctrl-C" else "\x1c")
    assert terminal.end(15.0) == 0
    assert terminal.is_restored
    assert terminal.said() == ""


def test_the_terminal_is_restored_after_a_fault(top: Callable[..., Terminal]) -> None:
    code = (
        "import sys\nimport filters.top.loop as loop\n"
        "def broken(*_):\n    raise ZeroDivisionError('of this test')\n"
        "loop.render = broken\n"
        "from acquisition.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    terminal = top(wait="", code=code)
    assert terminal.end() == 70
    assert terminal.is_restored
    assert "ZeroDivisionError: of this test" in terminal.said()


def test_it_ends_with_its_terminal(top: Callable[..., Terminal]) -> None:
    terminal = top()
    terminal.hang_up()
    terminal.process.wait(15.0)
    eventually(lambda: terminal.state() in ("", "Z"))


def test_stopped_and_continued_by_the_shell(top: Callable[..., Terminal]) -> None:
    terminal = top()
    terminal.press("\x1a")
    eventually(lambda: terminal.state() == "T", 30)
    terminal.read()
    assert terminal.is_restored
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.until(lambda text: terminal.alternate and "hot" in text)
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.is_restored


def test_it_follows_the_size(top: Callable[..., Terminal]) -> None:
    terminal = top()
    for columns, lines in ((132, 40), (40, 10), (12, 3), (80, 24)):
        terminal.resize(columns, lines)
        last = "? help  Enter open  Esc back  / filter  s order  p pause  2 shards  q quit"[:columns]
        terminal.until(
            lambda text, columns=columns, last=last: (
                "hot" in text and fits(text, columns) and text.splitlines()[-1] == last
            )
        )


def test_without_colours_and_without_utf8(top: Callable[..., Terminal]) -> None:
    terminal = top(NO_COLOR="1", LC_ALL="C", wait="gone")
    terminal.until(lambda text: "93.0%" in row_of(text, "hot"))
    assert terminal.raw.isascii()
    colours = [code for found in re.findall(rb"\x1b\[([0-9;]*)m", terminal.raw) for code in found.split(b";")]
    assert not [code for code in colours if code[:1] in (b"3", b"4", b"9") and len(code) > 1]
    assert b"\x1b[7m" in terminal.raw or b";7m" in terminal.raw, "the selected row is reversed, which is no colour"


@pytest.mark.parametrize("seed", [1, 2])
def test_any_keys_and_sizes_leave_it_working(top: Callable[..., Terminal], seed: int) -> None:
    chance = random.Random(seed)
    terminal = top()
    keys = ["\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[5~", "\x1b[6~", "\x1b", "\r", "\t", "\x0c", "\x7f", "ü"]
    keys += list("jklhgGsSrcmianpt/=12?xw* ")
    for _ in range(120):
        terminal.press(chance.choice(keys) * chance.randint(1, 3))
        if chance.random() < 0.1:
            terminal.resize(chance.randint(1, 160), chance.randint(1, 50))
        terminal.read(0.01)
    terminal.resize(80, 24)
    terminal.press("\x1b")
    time.sleep(0.3)  # an Esc, and not the beginning of something
    terminal.press("q")
    assert terminal.end() == 0
    assert terminal.is_restored
    assert terminal.said() == ""


def test_output_that_is_held_does_not_hold_the_end_up(top: Callable[..., Terminal]) -> None:
    terminal = top()
    for _ in range(100):  # draw everything anew, which nobody reads
        terminal.press("\x13\x0c")
        time.sleep(0.01)
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.process.wait(15.0) == 0
    assert terminal.modes == terminal.before


def test_a_still_picture_sends_little(top: Callable[..., Terminal]) -> None:
    terminal = top()
    terminal.until(lambda text: "93.0%" in row_of(text, "hot"))
    terminal.press("p")
    terminal.until(lambda text: "PAUSED" in text)
    before = len(terminal.raw)
    terminal.until(lambda text: re.search(r"PAUSED, [1-9]", text) and text)
    assert len(terminal.raw) - before < 1500, "only the lines that changed are sent"


def test_no_terminal_no_screen(plant: Plant, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "acquisition", "top", "--shards", plant.addresses, "--top", "1"]
    piped = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert piped.stdout.splitlines()[1].split()[:2] == ["hot", "93.0%"]
    assert "\x1b" not in piped.stdout
    dumb = Terminal(["top", "--shards", plant.addresses], TERM="dumb")
    with dumb:
        assert dumb.end() == 0
        assert b"\x1b" not in dumb.raw
        assert b"gone" in dumb.raw


def test_a_shard_that_hangs_holds_up_no_key(start_cluster: Callable[..., Shards], tmp_path: Path) -> None:
    shards = start_cluster(1)
    cluster = shards.connect()
    machine = FleetHost(cluster, "hot", 2)
    address = str(shards.addresses[0])
    worker = subprocess.Popen(
        [sys.executable, "-m", "acquisition", "filter", "--shards", address], cwd=ROOT, stderr=subprocess.DEVNULL
    )
    machine.push(time.time(), 0.5)
    pid = shards.shards[0].pid
    config = tmp_path / "shardpulse.toml"
    config.write_text("[shards]\ntimeout_seconds = 4.0\n")
    try:
        with Terminal(["top", "--shards", address, "--config", str(config)]) as terminal:
            terminal.until(lambda text: "1 host:" in text)
            os.kill(pid, signal.SIGSTOP)
            terminal.press("?")
            terminal.until(lambda text: "KEYS" in text, 3.6)
            terminal.press("?")
            terminal.until(lambda text: "CANNOT BE READ" in text)
            os.kill(pid, signal.SIGCONT)
            terminal.until(lambda text: "CANNOT BE READ" not in text)
            terminal.press("q")
            assert terminal.end(15.0) == 0
            assert terminal.is_restored
    finally:
        os.kill(pid, signal.SIGCONT)
        worker.terminate()
        worker.wait()
        cluster.close()
