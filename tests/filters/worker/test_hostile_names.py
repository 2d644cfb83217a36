"""Hosts, VMs and metrics that are named to take over a terminal: nothing that is printed may move its cursor.

A probe, or whoever names a process, can send any text as a name, a label or a unit (ECMA-48 control sequences,
OSC 0 sets a title, U+009B is CSI in one character, U+202E turns the direction of writing around).
"""

from __future__ import annotations

import numpy as np
import pytest

from acquisition.cli import main as shardpulse
from acquisition.link.cluster import Cluster
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.shards.launch import Shards
from acquisition.wire.position import Position
from acquisition.wire.table import Entity
from tests.support.scene import Scene, entities, record
from tests.support.still_clock import this_tick

EVIL = "e\x1b]0;pwn\x07\x9b2J\u202e\u061cl"
ID = f"{host_id(EVIL):016x}"


def _metrics(*names: str) -> tuple[Metric, ...]:
    """Metrics whose units are hostile where that leaves them what they are; the last has a hostile name."""
    known = [Metric(name, ("bytes" if "bytes" in name else "cores") + EVIL, "gauge", 0.0, 1e15, EVIL) for name in names]
    return (*known, Metric(f"bytes{EVIL}", EVIL, "gauge", 0.0, 1.0, ""))


HOST = _metrics("cpu_idle_ratio", "cpu_iowait_ratio", "cpu_count", "memory_total_bytes", "memory_available_bytes")
VM = _metrics("cpu_ratio", "memory_resident_bytes", "memory_assigned_bytes")


def _put(scene: Scene, now: int, name: str, row: Entity, metrics: tuple[Metric, ...], values: list[float]) -> None:
    set_id = resource_set_id(name)
    for tick in (now - 2, now - 1, now):
        data = record(host_id(EVIL), set_id, [row.id], np.array([values]), tick, schema=schema_hash(metrics))
        scene.record(EVIL, name, data, tick)
    scene.position(EVIL, name, Position(5, now, now, now + 0.5, 1.0, applied=10))
    scene.names(EVIL, name, (row,), metrics)


@pytest.fixture
def addresses(cluster: Cluster, shards: Shards, monkeypatch: pytest.MonkeyPatch) -> str:
    scene, now = Scene(cluster), this_tick(monkeypatch)
    _put(scene, now, "host", entities(EVIL, [EVIL])[0], HOST, [0.02, 0.01, 8, 2**36, 2**35, 1])
    vm = Entity(entity_id("vm", EVIL, EVIL), "vm", EVIL, EVIL, EVIL, {EVIL: EVIL})
    _put(scene, now, "vms", vm, VM, [2, 2**30, 2**31, 1])
    return ",".join(map(str, shards.addresses))


@pytest.mark.parametrize(
    "command",
    [
        "top --once", "top --lines --count 1", f"top --once --host {ID}", f"top --lines --count 1 --host {ID}",
        "top --json", "top --once --host e]0;pwn2Jl", "query", "query --set vms", "query --host nobody",
        "query hot --all", "query moves",
        "query hot --all --rule threshold --parameter metric=memory_total_bytes high=1 low=0 k=0",
        "status",
    ],
)  # fmt: skip
def test_nothing_that_is_printed_moves_the_cursor(
    command: str, addresses: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shardpulse([*command.split(), "--shards", addresses])
    captured = capsys.readouterr()
    printed = captured.out + captured.err
    assert printed
    assert [c for c in printed if not c.isprintable() and c != "\n"] == []
