"""Hash tags and slots: agreed with Redis itself, and evenly spread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.link.cluster import Cluster
from acquisition.wire import keys


@pytest.mark.parametrize(
    "key", ["", "foo", "{}x", "{a}x", "x{a}y{b}", "a{b", "{{a}}", "shardpulse:settled", "raw:{0.12}", "a}b{c}", "ü{ü}"]
)
def test_slots_are_those_of_redis(cluster: Cluster, key: str) -> None:
    connection = cluster.connect(cluster.masters()[0])
    assert keys.slot_of(key) == connection.call("CLUSTER", "KEYSLOT", key)
    connection.close()


@pytest.mark.parametrize("partitions", [1, 2, 3, 64, 1000])
def test_each_tag_lies_in_its_stripe(partitions: int) -> None:
    tags = keys.tags(partitions)
    assert len(set(tags)) == partitions
    for number, tag in enumerate(tags):
        low, high = number * keys.SLOTS // partitions, (number + 1) * keys.SLOTS // partitions
        assert low <= keys.slot_of(keys.raw(tag)) < high


@pytest.mark.parametrize("partitions", [0, -1, keys.SLOTS + 1])
def test_impossible_numbers_of_partitions(partitions: int) -> None:
    with pytest.raises(ValueError, match="expected 1 to"):
        keys.tags(partitions)


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1), st.integers(0, 9))
def test_every_key_of_a_partition_lies_in_one_slot(host: int, resource_set: int, slot: int) -> None:
    tag = keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(host, keys.DEFAULT_PARTITIONS)]
    names = [
        keys.raw(tag),
        keys.commit(tag),
        keys.applied(tag),
        keys.rejected(tag),
        keys.status(tag, host),
        keys.names(tag, host, resource_set),
        keys.recent(tag, host, resource_set),
        keys.events(tag),
        keys.told(tag),
        keys.smoothed(tag, host, resource_set, slot),
    ]
    assert len({keys.slot_of(name) for name in names}) == 1
    assert keys.member(host, resource_set) in names[-1]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1))
def test_members_read_back(host: int, resource_set: int) -> None:
    assert keys.parse_member(keys.member(host, resource_set).encode()) == (host, resource_set)


@pytest.mark.parametrize(
    "field", [b"", b":", b"00000000000000ff:0000001", b"00000000000000FF:00000010", b"00000000000000ff:00000010 "]
)
def test_fields_that_are_no_members(field: bytes) -> None:
    assert keys.parse_member(field) is None


def test_tags_never_change() -> None:
    """Data in the shards is found by these names: they are part of the format."""
    assert keys.tags(4) == ("0.1", "1.3", "2.1", "3.3")
    assert keys.raw("0.1") == "raw:{0.1}"
    assert keys.status("0.1", 255) == "status:{0.1}:00000000000000ff"
    assert keys.smoothed("0.1", 255, 16, 2) == "smoothed:{0.1}:00000000000000ff:00000010:2"
