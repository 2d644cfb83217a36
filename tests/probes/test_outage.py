"""The real probe whose shards do not answer: killed and started again meanwhile, and after a power cut of its host."""

from __future__ import annotations

import os
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.wire import frame, keys
from acquisition.wire.frame import Frame
from acquisition.wire.position import Position
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support import ROOT
from tests.support.applied import position_of
from tests.support.waiting import eventually

INTERVAL = 0.1
HOST = "outage"
NUMBER = host_id(HOST)
SET = resource_set_id("host")
PATIENT = 30.0
SMALLEST_RECORD = 128  #: bytes: a frame of this set takes more


class Scene:
    """One host's probe, one shard whose answers can be stopped, and a filter that is turned by hand."""

    def __init__(self, path: Path, shards: Shards) -> None:
        self.ring = path / "ring"
        self._config = path / "shardpulse.toml"
        self._shards = shards
        self._cluster: Cluster = shards.connect()
        layout = read_layout(self._cluster)
        self.tag = layout.tag_of(NUMBER)
        partition = keys.partition_of(NUMBER, layout.partitions)
        self._worker = lone_worker(self._cluster, layout, FilterSettings(), [partition], report=lambda _: None)
        self._probe: subprocess.Popen[bytes] | None = None
        self._config.write_text(
            f'[host]\nname = "{HOST}"\n[shards]\naddresses = ["{shards.addresses[0]}"]\n[probe]\n'
            f'interval_seconds = {INTERVAL}\nring_path = "{self.ring}"\nposition_interval_seconds = 0.2\n'
            "[probe.processes]\nenabled = false\n[probe.vms]\nenabled = false\n"
        )

    def start(self) -> None:
        command = [sys.executable, "-m", "probes.probe_command", "--config", str(self._config)]
        self._probe = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)

    def kill(self) -> None:
        assert self._probe is not None
        self._probe.kill()
        self._probe.wait()

    def stop(self) -> None:
        assert self._probe is not None
        self._probe.terminate()
        assert self._probe.wait(PATIENT) == 0

    def cut(self) -> None:
        os.kill(self._shards.pids[0], signal.SIGSTOP)

    def heal(self) -> None:
        os.kill(self._shards.pids[0], signal.SIGCONT)

    def works_on(self, frames: int) -> None:
        """Wait until the probe has made so many frames; only its ring shows that it does."""
        before = self.ring.stat().st_size if self.ring.exists() else 0
        eventually(
            lambda: not (not self.ring.exists() or self.ring.stat().st_size < before + frames * SMALLEST_RECORD),
            says=lambda: "the probe makes no frames",
        )

    def until(self, done: Callable[[], Any]) -> None:
        eventually(done, meanwhile=lambda: self._worker.turn(0.02), says=lambda: f"waited in vain: {self.position()}")

    def position(self) -> Position | None:
        return position_of(self._cluster, NUMBER, SET)

    def applied(self) -> int:
        found = self.position()
        return found.sequence if found is not None else 0

    def frames(self) -> list[Frame]:
        """What is in the stream, each once, by epoch in the order of their coming."""
        rows = self._cluster.call(keys.raw(self.tag), "XRANGE", keys.raw(self.tag), "-", "+")
        found = {(f.epoch, f.sequence): f for f in (frame.decode(fields[1]) for _, fields in rows)}
        return list(found.values())

    def close(self) -> None:
        self.heal()
        if self._probe is not None:
            self.kill()
        self._worker.close()
        self._cluster.close()


@pytest.fixture
def scene(start_cluster: Callable[..., Shards], tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path, start_cluster(1))
    yield made
    made.close()


def test_probe_restarted_during_link_cut_loses_nothing(scene: Scene) -> None:
    scene.start()
    scene.until(lambda: scene.applied() >= 5)
    scene.cut()
    scene.works_on(15)
    scene.kill()
    scene.start()
    scene.works_on(15)
    scene.kill()
    scene.start()
    scene.works_on(10)
    scene.heal()
    scene.until(lambda: scene.applied() >= 35)
    scene.stop()
    frames = sorted(scene.frames(), key=lambda each: each.sequence)
    assert [each.sequence for each in frames] == list(range(1, len(frames) + 1))  # numbers went on, none is missing
    assert len({each.epoch for each in frames}) == 1
    scene.until(lambda: scene.applied() == len(frames))
    found = scene.position()
    assert found is not None
    assert (found.lost, found.before, found.gaps) == (0, 0, 0)
    assert found.applied == sum(each.samples for each in frames)


@pytest.mark.alone
def test_ticks_are_on_time_while_shards_do_not_answer(scene: Scene) -> None:
    scene.start()
    scene.until(lambda: scene.applied() >= 5)
    scene.cut()
    began = time.monotonic()
    scene.works_on(80)
    ended = time.monotonic()
    scene.heal()
    scene.until(lambda: scene.applied() >= 40)
    during = [each for each in scene.frames() if each.kind == frame.KIND_SAMPLES and began < each.monotonic < ended]
    assert len(during) >= 25
    late = [abs(b.monotonic - a.monotonic - INTERVAL) for a, b in pairwise(during)]
    assert statistics.median(late) < 0.02
    assert [b.tick - a.tick for a, b in pairwise(during)].count(1) >= len(during) - 3  # on a busy machine


def test_power_cut_of_the_host_is_a_gap_of_unknown_size(scene: Scene) -> None:
    scene.start()
    scene.until(lambda: scene.applied() >= 5)
    scene.cut()
    scene.works_on(10)
    scene.kill()  # with what nobody else has
    scene.ring.unlink()
    scene.start()
    scene.works_on(5)
    scene.heal()
    scene.until(lambda: (found := scene.position()) is not None and found.gaps == 1 and found.sequence >= 5)
    scene.stop()
    scene.until(lambda: scene.applied() == max(each.sequence for each in scene.frames()[-1:]))
    scene.ring.unlink()  # a reboot in order: everything had been sent
    epoch = scene.frames()[-1].epoch
    scene.start()
    scene.until(lambda: (found := scene.position()) is not None and found.epoch != epoch and found.sequence >= 3)
    found = scene.position()
    assert found is not None
    assert (found.gaps, found.lost) == (1, 0)
