"""What is asked of the shards about hosts that are late, and in which order."""

from __future__ import annotations

import time

import pytest

from acquisition.errors import ShardError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.link.resp import ReplyError
from acquisition.model.identity import host_id
from acquisition.snapshot.reading import records
from acquisition.snapshot.reading.positions import PositionReader
from acquisition.snapshot.values.block import Begun, Block
from acquisition.snapshot.values.states import CURRENT, DOWN, LATE
from acquisition.snapshot.visibility import causes
from acquisition.snapshot.visibility.inquiry import Unread, VisibilityReader, heard_before
from acquisition.wire import keys, status
from acquisition.wire.layout import Layout
from tests.support.scene import Scene

NOW = 1_000_000.75
TICK = 999_999
DOWN_AFTER = 10.0
SILENT = "silent"
HOSTS = [f"host{number}" for number in range(6)]


@pytest.fixture
def scene(cluster: Cluster) -> Scene:
    """All hosts but one have sent the tick that is due; that one was silent for a minute."""
    scene = Scene(cluster)
    for host in HOSTS:
        scene.host(host, [TICK])
    scene.host(SILENT, [TICK - 60])
    return scene


def begun(cluster: Cluster) -> list[Begun]:
    """The blocks of all positions as they are now; those that have the newest tick are current."""
    layout = read_layout(cluster)
    replies = cluster.gather([(keys.applied(tag), ("HGETALL", keys.applied(tag))) for tag in layout.tags])
    table, _ = PositionReader(layout).take(replies, NOW)
    blocks = [(member, records.begin(member, place)) for member, place in table.all_places()]
    for _, block in blocks:
        block.state = CURRENT if block.tick == TICK else LATE
    return blocks


def look(cluster: Cluster, blocks: list[Begun]) -> list[Block]:
    known = VisibilityReader(read_layout(cluster)).read(cluster, blocks, blocks, NOW, 0.5, DOWN_AFTER)
    found = [block for _, block in blocks]
    causes.look(found, known._replace(trusted=None), NOW, DOWN_AFTER)
    return [block for block in found if block.state != CURRENT]


def test_a_silent_host_is_down(scene: Scene) -> None:
    assert [block.state for block in look(scene.cluster, begun(scene.cluster))] == [DOWN]


def test_one_that_is_heard_while_the_lease_is_read_is_not(scene: Scene) -> None:
    """A filter comes back: its partition is committed after the position was read, and before the lease is."""
    before = begun(scene.cluster)
    scene.host(SILENT, [TICK - 60, TICK])
    assert [(block.state, block.cause) for block in look(scene.cluster, before)] == [(LATE, "")]
    assert look(scene.cluster, begun(scene.cluster)) == []


def test_one_whose_patience_ends_while_the_reader_asks_is_late(scene: Scene) -> None:
    """Whether probes were heard before was not asked then: a reader that has just begun knows nothing of an outage."""
    blocks = begun(scene.cluster)
    silent = next(block.filtered for _, block in blocks if block.state != CURRENT)
    now = silent + DOWN_AFTER - 0.1
    known = VisibilityReader(read_layout(scene.cluster)).read(scene.cluster, blocks, blocks, now, 0.5, DOWN_AFTER)
    assert known.trusted is None
    causes.look([block for _, block in blocks], known, now + 0.2, DOWN_AFTER)
    assert {block.state for _, block in blocks} == {CURRENT, LATE}


def test_one_that_is_gone_meanwhile_is_not_down(scene: Scene) -> None:
    before = begun(scene.cluster)
    for tag in scene.tags:
        scene.cluster.call(f"applied:{{{tag}}}", "DEL", f"applied:{{{tag}}}")
    assert [block.state for block in look(scene.cluster, before)] == [LATE]


def hear(cluster: Cluster, seconds: list[float]) -> frozenset[str]:
    """The shards that are trusted where entries came so many seconds ago, in all partitions."""
    tags = read_layout(cluster).tags[:8]
    now = time.time()
    for tag in tags:
        cluster.call(keys.raw(tag), "DEL", keys.raw(tag))
        for ago in sorted(seconds, reverse=True):
            cluster.call(keys.raw(tag), "XADD", keys.raw(tag), f"{int(1000 * (now - ago))}-1", "f", b"")
    return heard_before(cluster, tags, dict.fromkeys(tags, "all"), DOWN_AFTER, 1.0, Unread())


def test_witnesses_are_those_that_were_heard_all_the_time(cluster: Cluster) -> None:
    """After an outage probes come back one after the other: those that are heard again prove nothing of the others."""
    every_second = [float(ago) for ago in range(-60, 31)]
    assert hear(cluster, every_second) == {"all"}
    assert hear(cluster, [ago for ago in every_second if not 4.0 < ago < 20.0]) == frozenset()
    assert hear(cluster, [ago for ago in every_second if ago < 4.0]) == frozenset()
    assert hear(cluster, []) == frozenset()


def test_where_no_partition_can_be_read_each_shard_s_words_are_told() -> None:
    """Of two, one is gone; the other says why it answers nothing."""
    layout = Layout()
    gone = ShardError("shard 127.0.0.1:7600 is unreachable: refused")
    replies = [gone if number % 2 == 0 else ReplyError("CLUSTERDOWN The cluster is down") for number in range(64)]
    with pytest.raises(ShardError, match=r"7600 is unreachable.*; shard: CLUSTERDOWN .*two masters have no majority"):
        PositionReader(layout).take(replies, NOW)


@pytest.mark.parametrize(
    ("ago", "said", "cause"),
    [
        (1.0, {"refused": "signature"}, "refused"),
        (60.0, {"refused": "signature"}, "silent"),  # what it said before it fell silent
        (1.0, {"refused": ["signature"]}, "silent"),
        (1.0, {}, "silent"),
    ],
)
def test_silent_host_with_refused_probe_is_not_down(
    scene: Scene, ago: float, said: dict[str, object], cause: str
) -> None:
    host = host_id(SILENT)
    key = keys.status(read_layout(scene.cluster).tag_of(host), host)
    scene.cluster.call(key, "SET", key, status.encode(SILENT, NOW - ago, {}, said))
    assert [block.cause for block in look(scene.cluster, begun(scene.cluster))] == [cause]
