"""The cluster grows and shrinks under load: nothing lost, averages right, interruptions finished by the next call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.errors import TemporaryError, UnavailableError, UsageError
from acquisition.link.resp import Address
from acquisition.shards.servers import local_growth
from acquisition.shards.servers import status as shard_status
from acquisition.shards.servers.launch import Shards, running
from acquisition.shards.topology import growth
from acquisition.shards.topology.migrate import Mover
from acquisition.shards.topology.nodes import Members, owners
from acquisition.wire import keys
from tests.support.fixture_types import StartCluster
from tests.support.growth_load import Load, command, loaded
from tests.support.ports import base_port

FRESH = 2.0  #: seconds, of issue 3


def quiet(_: str) -> None:
    return


def slots_of(shards: Shards) -> list[int]:
    rows = shard_status.read(shards.shards, credentials=shards.credentials)
    assert all(row.cluster_state == "ok" and not row.slots_leaving and not row.slots_arriving for row in rows), rows
    return [row.slots for row in rows]


@pytest.mark.few
def test_one_more_and_one_less_under_load(start_cluster: StartCluster) -> None:
    shards = start_cluster(2, secured=True)
    said: list[str] = []
    with loaded(shards.directory) as load:
        added = local_growth.add(shards, said.append)
        assert (added.action, added.shard) == ("add", str(shards.addresses[2]))
        assert (added.partitions, len(said)) == (21, 21)
        assert added.keys > 0
        assert slots_of(shards) == [5632, 5376, 5376]
        assert shards.shards[2].pinned
        pid = shards.pids[0]
        removed = local_growth.remove(shards, "shard-0", said.append)
        assert removed.partitions == 22
        assert slots_of(shards) == [8192, 8192]
        assert not Path(f"/proc/{pid}").exists()
        load.assert_whole()
        assert load.worst < FRESH
    with Members(shards.addresses, shards.credentials) as members:
        assert len(members.look()) == 2
        assert len(members.mentions) == 2


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Shards that were started by the command, as it leaves them running."""
    place = tmp_path / "state"
    subprocess.run(command(place, "up", "--count", "2", "--base-port", base_port(2)), check=True, capture_output=True)
    yield place
    left = running(place)
    if left is not None:
        left.stop()


def begun(place: Path, *arguments: str) -> subprocess.Popen[str]:
    """A command that has moved a few partitions and is at work."""
    child = subprocess.Popen(command(place, *arguments), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stderr is not None
    for _ in range(4):
        assert child.stderr.readline()
    return child


def test_kill_9_of_the_command_half_way_is_finished_by_the_next(directory: Path) -> None:
    shards = running(directory)
    assert shards is not None
    with loaded(shards.directory) as load:
        child = begun(directory, "add")
        child.kill()
        child.communicate()
        told = subprocess.run(command(directory, "status"), capture_output=True, text=True, check=False)
        assert "add shard-2 is in progress" in told.stdout
        refused = subprocess.run(command(directory, "remove", "shard-0"), capture_output=True, text=True, check=False)
        assert refused.returncode == 2
        assert "balance" in refused.stderr
        done = subprocess.run(command(directory, "add", "--json"), capture_output=True, text=True, check=True)
        assert "finishing the interrupted" in done.stderr
        assert len(json.loads(done.stdout)["shards"]) == 3
        child = begun(directory, "remove", "shard-1")
        child.kill()
        child.communicate()
        subprocess.run(command(directory, "balance"), capture_output=True, check=True)
        now = running(directory)
        assert now is not None
        assert [Path(shard.directory).name for shard in now.shards] == ["shard-0", "shard-2"]
        assert slots_of(now) == [8192, 8192]
        load.assert_whole()


def test_kill_9_of_the_new_shard_half_way(directory: Path) -> None:
    shards = running(directory)
    assert shards is not None
    with loaded(shards.directory) as load:
        child = begun(directory, "add")
        now = running(directory)
        assert now is not None
        os.kill(now.pids[2], signal.SIGKILL)
        assert child.wait(60) in (69, 75)
        child.communicate()
        refused = subprocess.run(command(directory, "add"), capture_output=True, text=True, check=False)
        assert refused.returncode == 69
        assert "shards up" in refused.stderr
        subprocess.run(command(directory, "up"), capture_output=True, check=True)
        subprocess.run(command(directory, "add"), capture_output=True, check=True)
        now = running(directory)
        assert now is not None
        assert slots_of(now) == [5632, 5376, 5376]
        load.assert_whole()


STAGES = ["importing", "migrating", "half", "moved", "declared"]


def leave_open(load: Load, shards: Shards, tag: str, stage: str) -> int:
    """Do by hand what a mover does with a partition's slot, up to a stage; answers the slot."""
    slot = keys.slot_of(keys.raw(tag))
    with Members(shards.addresses, shards.credentials) as members:
        nodes = {node.address: node for node in members.look()}
        source = owners(list(nodes.values()))[slot]
        (target,) = [node.id for node in nodes.values() if node.id != source]
        place = members.place(target)
        members.call(target, "CLUSTER", "SETSLOT", slot, "IMPORTING", source)
        if stage != "importing":
            members.call(source, "CLUSTER", "SETSLOT", slot, "MIGRATING", target)
        found = members.keys(source, slot)
        taken = {"half": found[: len(found) // 2], "moved": found, "declared": found}.get(stage, [])
        if taken:
            members.call(source, "MIGRATE", place.host, place.port, "", 0, 5000, "KEYS", *taken)
        if stage == "declared":
            members.call(target, "CLUSTER", "SETSLOT", slot, "NODE", target)
    return slot


def test_handing_over_that_fails_or_stops_at_any_stage(start_cluster: StartCluster) -> None:
    shards = start_cluster(2)
    with loaded(shards.directory) as load, Members(shards.addresses, shards.credentials) as members:
        left = [leave_open(load, shards, load.layout.tags[40 + i], stage) for i, stage in enumerate(STAGES)]
        time.sleep(0.5)
        rows = shard_status.read(shards.shards, credentials=shards.credentials)
        found = {slot for row in rows for slot in row.slots_leaving + row.slots_arriving}
        assert set(left[:-1]) <= found <= set(left)  # what is declared Valkey 9 closes by itself
        local_growth.balance(shards, quiet)
        assert sum(slots_of(shards)) == 16384

        mover = Mover(members, quiet)
        nodes = mover.look()
        slot = keys.slot_of(keys.raw(load.layout.tag_of(5)))
        source = owners(nodes)[slot]
        (target,) = [node.id for node in nodes if node.id != source]
        members.call(target, "CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(TemporaryError, match="no room"):  # before anything was moved: it is taken back
            mover._hand_over(source, target, [slot])
        assert sum(slots_of(shards)) == 16384
        timer = threading.Timer(0.7, relieve, (load, members.place(target)))
        timer.start()
        assert mover._move_open(source, target, [slot])  # the target is full at first and is waited for
        timer.join()
        assert sum(slots_of(shards)) == 16384
        load.assert_whole()


def relieve(load: Load, address: Address) -> None:
    connection = load.cluster.connect(address)
    connection.call("CONFIG", "SET", "maxmemory", 128 << 20)
    connection.close()


def test_what_is_refused(start_cluster: StartCluster) -> None:
    shards = start_cluster(2, partitions=2)
    cluster = shards.connect()
    names = [f"raw:{{{tag}}}" for tag in keys.tags(2)]
    cluster.gather([(name, ("SET", name, bytes(6 << 20))) for name in names])
    cluster.close()
    with pytest.raises(UsageError, match="only 2 partitions, too few for 3 more shards"):
        local_growth.add(shards, quiet)
    with pytest.raises(UsageError, match="unknown shard nobody; shards are shard-0 \\("):
        local_growth.remove(shards, "nobody", quiet)
    with Members(shards.addresses, shards.credentials) as members:
        node = next(node for node in members.look() if node.address == shards.addresses[0])
        members.call(node.id, "CONFIG", "SET", "maxmemory", 12 << 20)
    with pytest.raises(TemporaryError, match=r"not enough memory: shard .* nothing was moved"):
        local_growth.remove(shards, "shard-1", quiet)
    assert shards.intent is None
    assert slots_of(shards) == [8192, 8192]
    os.kill(shards.pids[0], signal.SIGKILL)
    while shards.shards[0].alive:
        time.sleep(0.01)
    for action in (local_growth.add, local_growth.balance):
        with pytest.raises(UnavailableError, match="down; restart it with `shardpulse shards up`"):
            action(shards, quiet)
    with pytest.raises(UnavailableError, match="are down"):
        growth.even_out(shards.addresses, 2, quiet)


def test_the_last_one_stays_and_a_new_one_without_room_goes(start_cluster: StartCluster) -> None:
    shards = start_cluster(1)
    with pytest.raises(UsageError, match="last shard cannot be removed"):
        local_growth.remove(shards, "shard-0", quiet)
    assert shards.intent is None
    cluster = shards.connect()
    names = [f"raw:{{{tag}}}" for tag in keys.tags(64)]
    cluster.gather([(name, ("SET", name, bytes(1 << 18))) for name in names])
    cluster.close()
    with pytest.raises(TemporaryError, match="not enough memory"):
        local_growth.add(shards, quiet, maxmemory=4 << 20)
    assert (len(shards.shards), shards.intent) == (1, None)
    assert slots_of(shards) == [16384]
