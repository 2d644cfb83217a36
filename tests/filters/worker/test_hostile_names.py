"""Hosts, VMs and metrics that are named to take over a terminal: nothing that is printed may move its cursor.

A probe, or whoever names a process, can send any text as a name, a label or a unit (ECMA-48 control sequences,
OSC 0 sets a title, U+009B is CSI in one character, U+202E turns the direction of writing around).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from acquisition import cli
from acquisition.cli import main as shardpulse
from acquisition.link.cluster import Cluster
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import Metric, resource_set_id, schema_hash
from acquisition.shards.servers.launch import Shards
from acquisition.wire.position import Position
from acquisition.wire.table import Entity
from tests.support.processes import started
from tests.support.scene import Scene, entities, record
from tests.support.still_clock import this_tick
from tests.support.terminal import Terminal

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
        "query hot --all", "query moves", "query place --vcpus 1 --memory 1",
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


#: Every command, as somebody at a terminal gives it: with names that hosts chose, in files, and of files.
AT_A_TERMINAL = (
    "status --shards SHARDS", "query --shards SHARDS", "query --json --shards SHARDS", "top --shards SHARDS",
    "query hot --all --json --shards SHARDS", "query moves --json --shards SHARDS", "top --json --shards SHARDS",
    "metrics --inputs all --shards SHARDS", "archive status --shards SHARDS", "shards status --addresses SHARDS",
    "archive run --seconds 1 --archive FILES/a.db --shards SHARDS", "filter --seconds 1 --shards SHARDS",
    "probe --dry-run --ticks 1", "capture --seconds 1 FILES/capture", "replay pidstat FILES/pidstat",
    "certificates show FILES/EVIL", "keys show FILES/EVIL", "config --file FILES/config", "serve --config FILES/EVIL",
    "query --entity EVIL --shards SHARDS", "query EVIL", "hosts --shards SHARDS", "hosts forget EVIL --shards SHARDS",
)  # fmt: skip
_OURS = re.compile(r"\x1b\[\??(?:\d{1,4}(?:;\d{1,3})*)?[A-Za-z]")  #: colours and what places the cursor


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Path]:
    """Files with hostile names in them, and a process that has one."""
    (tmp_path / EVIL).write_bytes(_certificate())
    (tmp_path / "config").write_text("[host]\nname = 'e\u202e\u061cl'\n")  # TOML takes no control characters
    title = "13:00:01      UID       PID    %usr %system  %guest   %wait    %CPU   CPU  Command"
    row = f"13:00:02        0         7    1.00    0.00    0.00    0.00    1.00     0  {EVIL}"
    (tmp_path / "pidstat").write_text(f"Linux 6.1 ({EVIL})  2026-11-21  _x86_64_ (2 CPU)\n\n{title}\n{row}\n")
    rename = "import time; open('/proc/self/comm', 'wb').write(b'e\\x1b]0;pwn\\x07'); time.sleep(600)"
    with started([sys.executable, "-c", rename]):
        yield tmp_path


def _certificate() -> bytes:
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, EVIL)])
    made = x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@pytest.mark.parametrize("command", AT_A_TERMINAL)
def test_no_command_passes_a_name_to_a_terminal_as_it_is(command: str, addresses: str, files: Path) -> None:
    words = [word.replace("FILES", str(files)).replace("SHARDS", addresses).replace("EVIL", EVIL)
             for word in command.split()]  # fmt: skip
    with Terminal(words, columns=250, lines=50) as terminal:
        if command.startswith("top --shards"):
            terminal.until(lambda text: "pwn" in text)
            terminal.press("q")
        terminal.end()
        printed = terminal.raw.decode() + terminal.said()
    assert printed
    assert [c for c in _OURS.sub("", printed) if not c.isprintable() and c not in "\r\n\t"] == []


def test_every_command_is_tried_at_a_terminal() -> None:
    assert {command.split()[0] for command in AT_A_TERMINAL} == set(cli.SUMMARIES)
