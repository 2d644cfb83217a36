"""Probe, filter, serve and archive as systemd sees them: what they tell it, and when."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from probes.loop.probe import ring_path
from tests.support import ROOT, stuck_thread
from tests.support.fixture_types import StartCluster
from tests.support.processes import started
from tests.support.service_manager import Manager
from tests.support.waiting import eventually

#: What each part says of itself when all is well.
PARTS = {
    ("probe",): "STATUS=sampling here: host every 0.2 s",
    ("filter",): "STATUS=smoothing 64 partitions",
    ("serve",): "STATUS=answering",
    ("archive", "run"): "STATUS=following 64 partitions into sqlite:///",
}
#: What it says while no shard answers.
MISSING = {
    "probe": "shard 127.0.0.1:1 is unreachable",
    "filter": "waiting for shards: ",
    "serve": "the shards cannot be read: ",
    "archive": "waiting for shards: ",
}
Run = Callable[..., "Running"]


class Running:
    """A part, and what it has told its manager."""

    def __init__(self, process: subprocess.Popen[bytes], manager: Manager, log: Path) -> None:
        self.process, self._manager, self._log = process, manager, log

    def tells(self, *beginnings: str) -> None:
        """Wait until it has told lines that begin so, one after the other."""
        eventually(
            lambda: self._manager.was_told(*beginnings),
            60,
            says=lambda: f"{self._manager.history}\n{self._log.read_text()}",
        )

    def forget(self) -> None:
        """What it has told so far does not count."""
        self._manager.heard()
        self._manager.history.clear()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self.process.send_signal(number)

    @property
    def feeds(self) -> int:
        """How often it has fed the watchdog."""
        self._manager.heard()
        return self._manager.history.count("WATCHDOG=1")


def configuration(addresses: Sequence[object], directory: Path, timeout: float = 2.0) -> str:
    named = ", ".join(f'"{address}"' for address in addresses)
    return (
        f'[host]\nname = "here"\n[shards]\naddresses = [{named}]\ntimeout_seconds = {timeout}\n'
        f'[probe]\ninterval_seconds = 0.2\nring_path = "{directory}/ring"\n'
        "[probe.processes]\nenabled = false\n[probe.vms]\nenabled = false\n"
        f'[serve]\nbind = "127.0.0.1:0"\n[archive]\nurl = "{directory}/archive.db"\n'
    )


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    with ExitStack() as stack:

        @contextmanager
        def begin(
            addresses: Sequence[object], *words: str, watchdog: float = 2.0, timeout: float = 2.0
        ) -> Iterator[Running]:
            config, log = tmp_path / "shardpulse.toml", tmp_path / "log"
            config.write_text(configuration(addresses, tmp_path, timeout))
            with Manager(tmp_path / "notify") as manager, log.open("wb") as output:
                command = [sys.executable, "-m", "acquisition", *words, "--config", str(config)]
                environment = {**os.environ, **manager.environment(watchdog)}
                with started(command, env=environment, stdout=output, stderr=output) as process:
                    yield Running(process, manager, log)

        yield lambda *arguments, **options: stack.enter_context(begin(*arguments, **options))


@pytest.mark.parametrize("words", PARTS, ids=" ".join)
def test_a_part_tells_what_it_does_from_its_start_to_its_end(
    words: tuple[str, ...], run: Run, cluster: Cluster, shards: Shards
) -> None:
    running = run(shards.addresses, *words)
    running.tells("READY=1")
    running.tells(PARTS[words], "WATCHDOG=1")
    if words != ("archive", "run"):
        running.forget()
        running.signal(signal.SIGHUP)
        running.tells("RELOADING=1", "MONOTONIC_USEC=", "READY=1", "WATCHDOG=1")
    running.signal(signal.SIGTERM)
    running.tells("STOPPING=1", "STATUS=")
    assert running.process.wait(60) == 0


@pytest.mark.parametrize("words", PARTS, ids=" ".join)
def test_a_part_without_shards_is_ready_and_says_what_is_missing(words: tuple[str, ...], run: Run) -> None:
    running = run(["127.0.0.1:1"], *words)
    running.tells("READY=1")
    running.tells(f"STATUS={MISSING[words[0]]}")
    assert running.process.poll() is None


def is_silent(running: Running) -> bool:
    """Whether nothing feeds the watchdog for five times as long as it waits."""
    before = running.feeds
    try:
        eventually(lambda: running.feeds > before, 1.0)
    except AssertionError:
        return True
    return False


def is_fed(running: Running) -> None:
    """Wait until something feeds the watchdog."""
    fed = running.feeds
    eventually(lambda: running.feeds > fed)


@pytest.mark.parametrize("words", [("serve",), ("archive", "run")], ids=" ".join)
def test_a_loop_that_waits_for_shards_that_hang_feeds_no_watchdog(
    words: tuple[str, ...], run: Run, start_cluster: StartCluster
) -> None:
    """The event loop of `serve`, and the upkeep of the archive, go on meanwhile: that is not enough."""
    shards = start_cluster(1)
    running = run(shards.addresses, *words, watchdog=0.2, timeout=300.0)
    running.tells(PARTS[words])
    for pid in shards.pids:
        os.kill(pid, signal.SIGSTOP)
    eventually(lambda: is_silent(running))
    for pid in shards.pids:
        os.kill(pid, signal.SIGCONT)
    is_fed(running)


#: How many threads of a part go on while its loop is stuck, at least: a probe has no other.
_BESIDE = {"probe": 0, "filter": 1, "serve": 1, "archive": 1}


@pytest.mark.parametrize("words", PARTS, ids=" ".join)
def test_stuck_loop_feeds_no_watchdog_despite_live_threads(
    words: tuple[str, ...], run: Run, cluster: Cluster, shards: Shards
) -> None:
    """As behind a read of a file that never comes back: the thread of the loop stands still, nothing else does."""
    running = run(shards.addresses, *words, watchdog=0.2)
    running.tells(PARTS[words], "WATCHDOG=1")
    pid = running.process.pid
    with stuck_thread.stuck(pid):
        assert stuck_thread.threads(pid) > _BESIDE[words[0]]
        eventually(lambda: is_silent(running))
        assert stuck_thread.others_live(pid)
    is_fed(running)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze not found")
@pytest.mark.parametrize("part", ["probe", "filter", "serve", "archive"])
def test_systemd_understands_the_units(part: str, tmp_path: Path) -> None:
    name = f"shardpulse-{part}.service"
    text = (ROOT / "deploy" / "systemd" / name).read_text()
    (tmp_path / name).write_text(text.replace("User=shardpulse", "User=root"))
    done = subprocess.run(["systemd-analyze", "verify", tmp_path / name], capture_output=True, text=True, timeout=60)
    assert [line for line in done.stderr.splitlines() if name in line and "not executable" not in line] == []
    assert "WatchdogSec=" in text
    assert "Type=notify\n" in text


def test_the_ring_of_a_unit_lies_where_systemd_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNTIME_DIRECTORY", f"{tmp_path}:/run/another")
    assert Path(ring_path("web-1")).parent == tmp_path
    assert ring_path("web-1") != ring_path("web-2")
    monkeypatch.delenv("RUNTIME_DIRECTORY")
    assert ring_path("web-1").startswith("/dev/shm/")
