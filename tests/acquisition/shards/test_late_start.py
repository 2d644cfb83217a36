"""The wait of a unit before it starts a master whose replica has yet to take over, on real lists of members."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from acquisition.shards.servers import rendering
from tests.support import ROOT
from tests.support.fixture_types import StartCluster
from tests.support.waiting import eventually

_SECONDS = 3.0  #: more than looking takes, and less than the wait


def waits(data: Path) -> bool:
    """Whether the script of the unit goes on for long, for a shard with its list of members in ``data``."""
    text = rendering.directive("redis", str(data)).replace("\\\n", " ").replace("$$", "$")
    script = re.fullmatch(r'ExecStartPre=\+/usr/bin/setpriv [^"]+ /bin/sh -c "(.+)"\n', text)
    assert script is not None, text
    with subprocess.Popen(["/bin/sh", "-c", script[1]], stdout=subprocess.PIPE, text=True) as run:
        try:
            assert run.wait(_SECONDS) == 0
        except subprocess.TimeoutExpired:
            run.kill()
            assert "which shall take over first" in run.communicate()[0]
            return True
        assert run.communicate()[0] == ""
        return False


def test_a_master_with_a_replica_waits_and_nobody_else_does(start_cluster: StartCluster) -> None:
    shards = start_cluster(2, replicas=1)
    homes = [Path(shard.directory) for shard in shards.shards]
    for home in homes[:2]:
        eventually(lambda home=home: waits(home), 30)
    assert [waits(home) for home in homes[2:]] == [False, False]


def test_a_master_without_a_replica_does_not_wait(start_cluster: StartCluster) -> None:
    shards = start_cluster(2)
    assert [waits(Path(shard.directory)) for shard in shards.shards] == [False, False]


@pytest.mark.parametrize("text", [None, "", "vars currentEpoch 0 lastVoteEpoch 0\n", "\0\xff what is this\n"])
def test_a_new_shard_does_not_wait(text: str | None, tmp_path: Path) -> None:
    """Also where the list of members is damaged: redis-server says so."""
    if text is not None:
        (tmp_path / "nodes.conf").write_text(text)
    assert not waits(tmp_path)


def test_the_template_of_deploy_waits_as_rendered_units_do() -> None:
    server = rendering.Server(
        "a", ("*",), 7600, 0, 1 << 30, 12_000, "/etc/shardpulse/shard", "/var/lib/shardpulse-shard", "redis"
    )
    template = (ROOT / "deploy/systemd/shardpulse-shard@.service").read_text()
    for text in (rendering.template_of(server), template):
        assert f"\n{rendering.directive('redis', '/var/lib/shardpulse-shard-%i')}ExecStart=/usr/bin/redis" in text
        keys = dict(re.findall(r"^(StartLimitIntervalSec|TimeoutStartSec|RestartSec)=(.+)$", text, re.MULTILINE))
        assert int(keys["TimeoutStartSec"]) > 2 * rendering.SECONDS
        assert (keys["StartLimitIntervalSec"], keys["RestartSec"]) == ("0", "2")


@pytest.mark.skipif(shutil.which("setpriv") is None or os.geteuid() != 0, reason="takes root, and setpriv(1)")
def test_who_looks_has_no_rights(tmp_path: Path) -> None:
    line = rendering.directive("daemon", str(tmp_path)).partition(" /bin/sh ")[0].removeprefix("ExecStartPre=+")
    done = subprocess.run(
        [*line.split(), "cat", "/proc/self/status"], capture_output=True, text=True, check=True, timeout=60
    )
    found = dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)
    assert set(found["Uid"].split()) != {"0"}
    assert (int(found["CapEff"], 16), found["Groups"].strip(), found["NoNewPrivs"]) == (0, "", "1")
