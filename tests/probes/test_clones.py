"""A machine that was cloned while it ran: two real probes with one ring, one epoch, and the same numbers."""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model import codes
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.nodes import Members
from acquisition.status import health
from acquisition.wire import keys
from acquisition.wire.position import CONTESTED, Position
from acquisition.wire.records import smoothed
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support import ROOT
from tests.support.applied import position_of
from tests.support.processes import started
from tests.support.waiting import eventually

NAME, SET = "twin", resource_set_id("host")


class Site:
    """What lies in the shards of the host that both machines say they are."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster, self.layout = cluster, read_layout(cluster)
        self.host = host_id(NAME)
        self.tag = self.layout.tag_of(self.host)

    def position(self) -> Position | None:
        return position_of(self.cluster, self.host, SET)

    def codes(self) -> set[int]:
        """Of the newest samples, but for those that have a code of their own."""
        found = self.position()
        assert found is not None
        key = keys.smoothed(self.tag, self.host, SET, found.tick % keys.DEFAULT_KEEP_TICKS)
        record = smoothed.decode(self.cluster.call(key, "GET", key))
        return {code & codes.CODE_MASK for code in record.codes().ravel().tolist()} - {codes.MISSING, codes.UNREADABLE}


def configured(directory: Path, shards: Shards) -> list[str]:
    """The command of a probe whose ring lies in ``directory``."""
    directory.mkdir(exist_ok=True)
    addresses = ", ".join(f'"{address}"' for address in shards.addresses)
    (directory / "shardpulse.toml").write_text(
        f'[host]\nname = "{NAME}"\n[shards]\naddresses = [{addresses}]\n[probe]\ninterval_seconds = 0.2\n'
        f'ring_path = "{directory / "ring"}"\nposition_interval_seconds = 0.2\n'
    )
    return [sys.executable, "-m", "probes.probe_command", "--config", str(directory / "shardpulse.toml")]


def test_two_probes_with_one_ring_are_told_apart(tmp_path: Path, cluster: Cluster, shards: Shards) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    commands = [configured(each, shards) for each in (first, second)]
    site, said = Site(cluster), [tmp_path / "first.txt", tmp_path / "second.txt"]
    with ExitStack() as stack:
        number = keys.partition_of(site.host, site.layout.partitions)
        worker = lone_worker(cluster, site.layout, FilterSettings(), [number], report=lambda _: None)
        stack.callback(worker.close)

        def turn() -> None:
            worker.turn(0.01)

        def epochs() -> set[int]:
            return {found.epoch} if (found := site.position()) is not None and found.sequence > 5 else set()

        with started(commands[0], cwd=ROOT, stderr=subprocess.DEVNULL):
            epoch = eventually(epochs, meanwhile=turn)
        shutil.copy(first / "ring", second / "ring")
        for command, path in zip(commands, said, strict=True):
            stack.enter_context(started(command, cwd=ROOT, stderr=stack.enter_context(path.open("wb"))))
        eventually(
            lambda: all("two senders use the name" in path.read_text() for path in said),
            meanwhile=turn,
            says=lambda: (site.position(), [path.read_text() for path in said]),
        )
        eventually(lambda: site.codes() == {codes.CONTESTED}, meanwhile=turn, says=site.codes)
        found = site.position()
        assert found is not None
        assert found.flags & CONTESTED
        assert epoch == {found.epoch}  # one of the two goes on with it
        with Members(shards.addresses, None, 2.0) as members:
            findings = health.read(cluster, members, {}).findings
        assert any("two senders use this name" in finding.text for finding in findings)
