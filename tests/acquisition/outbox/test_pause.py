"""A shard that takes nothing for the time being: its probes keep their connections, and their frames."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from acquisition.link.cluster import Cluster
from acquisition.link.resp import Connection, ReplyError
from acquisition.outbox.link.pause import Pause
from acquisition.shards.servers import grants
from acquisition.shards.servers.launch import Shards
from acquisition.wire import keys
from experiments.processes.access import MASTER_KEY
from tests.support.fixture_types import MakePipeline
from tests.support.tls_cluster import LACK, tls_cluster
from tests.support.waiting import PATIENCE, eventually
from tests.support.writer_bench import OTHER_SET, SET, Pipeline

Connect = Callable[[], Connection]


class Scene(NamedTuple):
    """A pipeline on one shard, and ways to that shard for whoever may do everything there."""

    pipeline: Pipeline
    connect: Connect

    def call(self, *command: str | int) -> object:
        with contextlib.closing(self.connect()) as connection:
            return connection.call(*command)

    def client(self) -> str:
        """The id that the shard has given to the writer's connection."""
        with socket.socket(fileno=os.dup(self.pipeline.writer.waits_for[0])) as made:
            own = ":".join(map(str, made.getsockname()[:2]))
        told = self.call("CLIENT", "LIST")
        assert isinstance(told, bytes)
        (line,) = (line for line in told.decode().splitlines() if f" addr={own} " in line)
        return line.split()[0]

    def errors(self, kind: str) -> int:
        found: int = self.pipeline.writer.account()["errors"].get(kind, 0)
        return found

    def offer(self) -> None:
        """Frames of two resource sets, one after the other."""
        for _ in range(5):
            self.pipeline.offer(1, SET)
            self.pipeline.offer(1, OTHER_SET)
            self.pipeline.turn()

    def begin(self) -> str:
        """Frames that are taken; returns the connection's id."""
        self.offer()
        assert self.pipeline.writer.drain(PATIENCE)
        return self.client()

    def wait_for_errors(self, kind: str, count: int = 4) -> set[str]:
        """Offer frames until the writer has been refused so often; returns what it said meanwhile."""
        told = set()

        def is_reached() -> bool:
            if self.errors(kind):
                told.add(self.pipeline.writer.problem)
            return self.errors(kind) >= count

        self.offer()
        self.pipeline.turn_until(is_reached)
        return told

    def assert_whole(self, client: str, kind: str) -> None:
        """Everything is applied once, over the connection of before."""
        pipeline = self.pipeline
        pipeline.start_filter()
        for resource_set in (SET, OTHER_SET):
            pipeline.turn_until(lambda wanted=resource_set: pipeline.is_applied(wanted))
        pipeline.turn_until(lambda: not pipeline.writer.problem)
        for resource_set in (SET, OTHER_SET):
            pipeline.assert_everything_applied_once(resource_set)
        assert self.client() == client
        account = pipeline.writer.account()
        assert account["connections"] == 1
        assert set(account["errors"]) == {kind}


@pytest.fixture
def scene(start_cluster: Callable[..., Shards], make_pipeline: MakePipeline) -> Iterator[Scene]:
    """One shard of its own."""
    shards = start_cluster(1)
    with contextlib.closing(shards.connect()) as cluster:
        pipeline = make_pipeline(cluster=cluster, seeds=shards.addresses)
        yield Scene(pipeline, lambda: cluster.connect(shards.addresses[0]))
        pipeline.close()


def test_full_shard_keeps_the_connection(scene: Scene) -> None:
    client = scene.begin()
    before = scene.call("XLEN", keys.raw(scene.pipeline.tag))
    scene.call("CONFIG", "SET", "maxmemory", 1 << 20)  # less than it uses
    told = scene.wait_for_errors("oom")
    assert all("is out of memory and refuses frames" in problem for problem in told)
    assert not scene.pipeline.writer.drain(0.01)
    assert scene.client() == client
    assert scene.call("XLEN", keys.raw(scene.pipeline.tag)) == before
    scene.call("CONFIG", "SET", "maxmemory", 128 << 20)
    scene.assert_whole(client, "oom")


def test_what_the_shard_has_taken_is_not_sent_again(scene: Scene) -> None:
    """No filter runs: the shard is as full as before it had room, if everything came a second time."""
    scene.begin()
    key = keys.raw(scene.pipeline.tag)
    before = scene.call("XLEN", key)
    scene.call("CONFIG", "SET", "maxmemory", 1 << 20)
    scene.wait_for_errors("oom")
    scene.call("CONFIG", "SET", "maxmemory", 128 << 20)
    scene.pipeline.turn_until(lambda: not scene.pipeline.writer.problem)
    assert scene.pipeline.writer.drain(PATIENCE)
    frames = sum(window.last for window in scene.pipeline.outbox.windows.values())
    assert isinstance(before, int)
    assert scene.call("XLEN", key) == frames
    assert frames > before


def test_shard_without_enough_replicas_keeps_the_connection(scene: Scene) -> None:
    client = scene.begin()
    scene.call("CONFIG", "SET", "min-replicas-to-write", 1)
    told = scene.wait_for_errors("noreplicas")
    assert all("NOREPLICAS" in problem for problem in told)
    scene.call("CONFIG", "SET", "min-replicas-to-write", 0)
    scene.assert_whole(client, "noreplicas")


def test_shard_that_cannot_save_keeps_the_connection(scene: Scene) -> None:
    """Ours save nothing; one that somebody has told to save, and to take no writes unless it can, takes none then."""
    client = scene.begin()
    home, file = (scene.call("CONFIG", "GET", name)[1].decode() for name in ("dir", "dbfilename"))  # type: ignore[index]
    in_its_way = Path(home, file)
    in_its_way.mkdir()
    scene.call("CONFIG", "SET", "save", "3600 1", "stop-writes-on-bgsave-error", "yes")
    scene.call("BGSAVE")
    eventually(lambda: b"rdb_last_bgsave_status:err" in scene.call("INFO", "persistence"))  # type: ignore[operator]
    told = scene.wait_for_errors("misconf")
    assert all("MISCONF" in problem for problem in told)
    in_its_way.rmdir()
    scene.call("CONFIG", "SET", "save", "")
    scene.assert_whole(client, "misconf")


def test_shard_that_runs_a_script_keeps_the_connection(scene: Scene) -> None:
    client = scene.begin()
    scene.call("CONFIG", "SET", "lua-time-limit", 1)
    with contextlib.closing(scene.connect()) as busy:
        busy.send(b"*3\r\n$4\r\nEVAL\r\n$20\r\nwhile true do    end\r\n$1\r\n0\r\n")
        scene.wait_for_errors("busy", 2)
        assert scene.call("SCRIPT", "KILL") == b"OK"
        assert isinstance(busy.receive(), ReplyError)
    scene.assert_whole(client, "busy")


def test_slot_without_an_owner_keeps_the_connection(scene: Scene) -> None:
    client = scene.begin()
    slot = keys.slot_of(keys.raw(scene.pipeline.tag))
    scene.call("CLUSTER", "DELSLOTS", slot)
    told = scene.wait_for_errors("clusterdown", 2)
    assert all("CLUSTERDOWN" in problem for problem in told)
    scene.call("CLUSTER", "ADDSLOTS", slot)
    scene.assert_whole(client, "clusterdown")


@pytest.mark.skipif(bool(LACK), reason=LACK)
def test_full_shard_keeps_the_connection_over_tls(tmp_path: Path, make_pipeline: MakePipeline) -> None:
    with tls_cluster(tmp_path, masters=1) as secured:
        address, master_key = secured.addresses[0], secured.credentials(MASTER_KEY)
        with contextlib.closing(Cluster([address], master_key)) as cluster:
            probe = secured.credentials(grants.PROBE)
            pipeline = make_pipeline(cluster=cluster, seeds=[address], credentials=probe)
            scene = Scene(pipeline, lambda: Connection(address, master_key))
            client = scene.begin()
            scene.call("CONFIG", "SET", "maxmemory", 1 << 20)
            scene.wait_for_errors("oom")
            scene.call("CONFIG", "SET", "maxmemory", 64 << 20)
            eventually(lambda: scene.client() == client, meanwhile=pipeline.turn)
            scene.assert_whole(client, "oom")
            pipeline.close()


# ------------------------------------------------------------------ the rule alone


def test_other_errors_end_the_connection() -> None:
    assert not any(Pause().allows(word, 0.0) for word in ("MOVED", "ASK", "READONLY", "NOPERM", "NOAUTH", "ERR"))


def test_a_full_shard_is_stayed_with_as_long_as_it_is_full() -> None:
    pause = Pause()
    for now in range(10_000):
        assert pause.allows("OOM", float(now))
        pause.begin(now + 0.5)


def test_stays_with_one_that_is_absent_end_and_grow() -> None:
    pause, now, stays = Pause(), 0.0, []
    for _ in range(6):
        began = now
        while pause.allows("CLUSTERDOWN", now):
            pause.begin(now + 0.5)
            now += 0.5
        stays.append(now - began)
        pause.forget()
    assert stays == [3.0, 6.0, 12.0, 24.0, 48.0, 48.0]
    pause.end()
    assert pause.allows("LOADING", now)
    pause.begin(now)
    assert not pause.allows("LOADING", now + 3.0)


def test_it_is_asked_once_at_a_time() -> None:
    pause = Pause()
    assert not pause.is_asked
    pause.begin(5.0)
    assert (pause.is_on, pause.is_asked) == (True, False)
    pause.ask()
    assert pause.is_asked
    pause.begin(7.0)
    assert not pause.is_asked
    pause.end()
    assert not pause.is_on
