"""A probe and a filter as commands whose configurations name files of keys: a wrong one, then the right one."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.signing import files
from acquisition.wire import keys, signature
from acquisition.wire.position import Position
from tests.support import ROOT
from tests.support.applied import position_of
from tests.support.processes import started
from tests.support.waiting import eventually

NAME, SET = "signing", resource_set_id("host")


def configured(directory: Path, shards: Shards, masters: Path, key: Path) -> Path:
    addresses = ", ".join(f'"{address}"' for address in shards.addresses)
    path = directory / "shardpulse.toml"
    path.write_text(
        f'[host]\nname = "{NAME}"\n[shards]\naddresses = [{addresses}]\n[probe]\ninterval_seconds = 0.2\n'
        f'ring_path = "{directory / "ring"}"\nposition_interval_seconds = 0.2\nprocesses.enabled = false\n'
        f'vms.enabled = false\n[probe.signing]\nkey_file = "{key}"\n[filter.signing]\nkey_file = "{masters}"\n'
    )
    return path


def test_a_probe_takes_another_key_on_sighup_and_nothing_is_lost(
    tmp_path: Path, cluster: Cluster, shards: Shards
) -> None:
    masters, strange, key = tmp_path / "masters", tmp_path / "strange", tmp_path / f"{NAME}.key"
    for path in (masters, strange):
        assert shardpulse(["keys", "master", str(path)]) == 0
    assert shardpulse(["keys", "host", str(strange), NAME, "--out", str(tmp_path)]) == 0
    config, tag = configured(tmp_path, shards, masters, key), read_layout(cluster).tag_of(host_id(NAME))

    def applied() -> Position | None:
        return position_of(cluster, host_id(NAME), SET)

    def newest() -> list[bytes]:
        found = cluster.call(keys.raw(tag), "XREVRANGE", keys.raw(tag), "+", "-", "COUNT", 1)
        return list(found[0][1]) if found else []

    with ExitStack() as stack:
        said = {name: tmp_path / f"{name}.txt" for name in ("probe", "filter")}
        running = {
            name: stack.enter_context(
                started(
                    [sys.executable, "-m", "acquisition", name, "--config", str(config)],
                    cwd=ROOT,
                    stderr=stack.enter_context(path.open("wb")),
                )
            )
            for name, path in said.items()
        }

        def spoken() -> str:
            return "\n".join(path.read_text() for path in said.values())

        refused = f"the filter refuses the frames of host {NAME}: signature"
        eventually(lambda: refused in said["probe"].read_text(), says=spoken)
        assert "another master" in said["filter"].read_text()
        assert applied() is None
        assert shardpulse(["keys", "host", str(masters), NAME, "--out", str(tmp_path), "--replace"]) == 0
        running["probe"].send_signal(signal.SIGHUP)
        eventually(lambda: (found := applied()) is not None and found.frames > 10, says=spoken)
        eventually(lambda: f"frames of host {NAME} are accepted again" in said["probe"].read_text(), says=spoken)
        found = applied()
        assert found is not None
        assert (found.lost, found.gaps, found.before) == (0, 0, 0)
        data = newest()
        (master,) = files.read_masters(str(masters), "masters")
        assert data[2:] == [keys.SIGNATURE_FIELD, signature.sign(signature.host_key(master, host_id(NAME)), data[1])]

        # masters are exchanged: the filter takes both, then the probe has its new key
        assert shardpulse(["keys", "master", str(masters), "--rotate"]) == 0
        running["filter"].send_signal(signal.SIGHUP)
        eventually(lambda: "configuration reloaded" in said["filter"].read_text(), says=spoken)
        assert shardpulse(["keys", "host", str(masters), NAME, "--out", str(tmp_path), "--replace"]) == 0
        running["probe"].send_signal(signal.SIGHUP)
        number = signature.number_of(files.read_masters(str(masters), "masters")[0])
        eventually(lambda: len(newest()) == 4 and newest()[3].startswith(number), says=spoken)
        frames = found.frames
        eventually(lambda: (now := applied()) is not None and now.frames > frames + 5, says=spoken)
        found = applied()
        assert found is not None
        assert (found.lost, found.gaps) == (0, 0)

        # a file that is none changes nothing
        key.write_text("nothing\n")
        running["probe"].send_signal(signal.SIGHUP)
        eventually(
            lambda: "invalid new configuration; configuration unchanged" in said["probe"].read_text(), says=spoken
        )
        frames = found.frames
        eventually(lambda: (now := applied()) is not None and now.frames > frames + 5, says=spoken)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("probe", "key probe.signing.key_file: {0} contains no host key"),
        ("filter", "key filter.signing.key_file: {0} "),
    ],
)
def test_a_file_that_is_no_key_ends_the_start(tmp_path: Path, shards: Shards, command: str, text: str) -> None:
    path = tmp_path / "none.key"
    path.write_text("x\n")
    path.chmod(0o600)
    config = configured(tmp_path, shards, path, path)
    done = subprocess.run(
        [sys.executable, "-m", "acquisition", command, "--config", str(config), "--seconds", "1"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, text.format(path) in done.stderr, done.stderr.count("\n")) == (78, True, 1), done.stderr
