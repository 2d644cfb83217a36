"""What strangers leave in the keys of one host damages that host, in every reading, and no other one."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable

import numpy as np
import pytest

from acquisition.cli import main as shardpulse
from acquisition.link.cluster import Cluster
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot import SnapshotReader
from acquisition.snapshot.values.states import CURRENT
from acquisition.wire import keys, position
from acquisition.wire.position import Position
from tests.support.scene import Scene
from tests.support.still_clock import this_tick

VICTIM, OTHER = "alpha", "beta"
SET = "processes"
Change = Callable[[Scene, int], None]


def _table(sound: bytes, foreign: bytes) -> Change:
    def change(scene: Scene, _: int) -> None:
        key = keys.names(scene.tag(host_id(VICTIM)), host_id(VICTIM), resource_set_id(SET))
        payload = scene.cluster.call(key, "GET", key)
        assert sound in payload
        scene.put(key, "SET", key, payload.replace(sound, foreign))

    return change


def _position(**fields: float) -> Change:
    def change(scene: Scene, now: int) -> None:
        sound = Position(5, 3, now, now + 0.5, 1.0, applied=12)
        scene.position(VICTIM, SET, sound._replace(**fields))

    return change


def _raw_position(data: bytes) -> Change:
    def change(scene: Scene, _: int) -> None:
        key = keys.applied(scene.tag(host_id(VICTIM)))
        scene.put(key, "HSET", key, keys.member(host_id(VICTIM), resource_set_id(SET)), data)

    return change


#: Of each kind one or two: what decoders refuse is held by tests/acquisition/wire.
HOSTILE: dict[str, Change] = {
    "an interval of 401 digits": _table(b'"interval":1.0', b'"interval":' + b"9" * 401),
    "an id of 65 bits": _table(b'es":[["', b'es":[["20000000000000000","process","","","",{}],["'),
    "a name that is no text": _table(b'"init"', b'"\\ud800"'),
    "a label that is a number": _table(b"{}", b'{"a":1e400}'),
    "a range that is no number": _table(b"0.0", b"NaN"),
    "counts of 2^64-1": _position(applied=2**64 - 1, lost=2**64 - 1, made=2**64 - 1),
    "a time that is none": _position(wall=float("nan")),
    "a position of other bytes": _raw_position(b"\xff" * 120),
    "no position": _raw_position(b""),
    "a position with ends of everything": _raw_position(
        position.POSITION.pack(
            position.VERSION, 255, 65535, 3e38, 2**64 - 1, 2**64 - 1, -(2**63), -1e308, *[2**64 - 1] * 9, -1
        )
    ),
}  # fmt: skip


@pytest.fixture
def scene(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> tuple[Scene, int]:
    scene, now = Scene(cluster), this_tick(monkeypatch)
    for host in (VICTIM, OTHER):
        scene.host(host, (now - 2, now - 1, now))
    return scene, now


@pytest.mark.parametrize("what", HOSTILE)
def test_one_host_is_damaged_and_all_others_are_as_they_were(
    what: str, scene: tuple[Scene, int], shards: Shards, capsys: pytest.CaptureFixture[str]
) -> None:
    parts, now = scene
    with SnapshotReader(shards.connect()) as before:
        sound = {row.id: row for row in before.coherent().rows(host=OTHER)}
        HOSTILE[what](parts, now)
        for reader in (before, SnapshotReader(shards.connect())):
            for _ in range(2):  # what is kept between two readings is no way around
                for snapshot in (reader.coherent(), reader.latest()):
                    rows = list(snapshot.rows(host=OTHER))
                    assert {row.id for row in rows} == set(sound)
                    assert all(row.state == CURRENT for row in rows)
                    assert all(row.entity for row in snapshot.rows())
        fresh = reader.coherent()
        assert fresh.errors or fresh.damaged == 1
        assert any(f"{host_id(VICTIM):016x}" in text for text in fresh.errors) or fresh.damaged
        reader.close()
    for command in ("query --json --top 0", "query", "query hot --json --all", "status --json", "top --once"):
        code = shardpulse([*command.split(), "--shards", ",".join(map(str, shards.addresses))])
        out = capsys.readouterr().out
        assert code != 70, command
        assert OTHER in out or command.startswith(("status", "query hot")), command
        if "--json" in command:
            json.loads(out)


def test_a_record_full_of_ends_is_a_record(scene: tuple[Scene, int], shards: Shards) -> None:
    """Numbers at the ends of their types hurt nobody who reads."""
    parts, now = scene
    host, number = host_id(VICTIM), resource_set_id(SET)
    key = keys.smoothed(parts.tag(host), host, number, now % parts.keep_ticks)
    data = bytearray(parts.cluster.call(key, "GET", key))
    for end in (np.nan, np.inf, -np.inf, 1e308, -1e308):
        for at in (72, 80, 88):  # wall, monotonic, filtered
            struct.pack_into("<d", data, at, end)
            parts.put(key, "SET", key, bytes(data))
            with SnapshotReader(shards.connect()) as reader:
                assert {row.state for row in reader.coherent().rows(host=OTHER)} == {CURRENT}
                assert {row.state for row in reader.latest().rows(host=OTHER)} == {CURRENT}
