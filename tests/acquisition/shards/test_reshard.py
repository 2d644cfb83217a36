"""The plan of moves: whole stripes, no more of them than needed, every slot owned before and after."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.errors import TemporaryError, UsageError
from acquisition.link.resp import Address
from acquisition.shards.topology import join, nodes, reshard
from acquisition.shards.topology.reshard import Move
from acquisition.wire import keys

Owners = dict[int, str]


def split(count: int) -> Owners:
    """The slots as ``shards up`` gives them to ``count`` masters named a, b, c …"""
    return {slot: chr(97 + i) for i, (low, high) in enumerate(join.stripes(count)) for slot in range(low, high + 1)}


def carried_out(owners: Owners, moves: list[Move]) -> Owners:
    after = dict(owners)
    for move in moves:
        for slot in move.slots:
            assert after[slot] == move.source
            after[slot] = move.target
    return after


def held(owners: Owners, partitions: int) -> Counter[str]:
    return Counter(reshard.holders(owners, partitions))


@given(count=st.integers(1, 6), partitions=st.sampled_from([7, 16, 64, 100]))
@settings(max_examples=30, deadline=None)
def test_one_more_gets_its_part_and_nothing_else_moves(count: int, partitions: int) -> None:
    owners = split(count)
    names = [chr(97 + i) for i in range(count + 1)]
    moves = reshard.even(owners, names, partitions)
    assert {move.target for move in moves} == {names[-1]}
    assert len({move.partition for move in moves}) == partitions // (count + 1)
    after = held(carried_out(owners, moves), partitions)
    assert max(after.values()) - min(after.values()) <= 1
    assert not reshard.even(carried_out(owners, moves), names, partitions)


@given(count=st.integers(2, 6), partitions=st.sampled_from([7, 16, 64, 100]), data=st.data())
@settings(max_examples=30, deadline=None)
def test_the_leaving_one_owns_no_slot_afterwards(count: int, partitions: int, data: st.DataObject) -> None:
    owners = split(count)
    names = [chr(97 + i) for i in range(count)]
    leaving = data.draw(st.sampled_from(names))
    moves = reshard.emptied(owners, names, leaving, partitions)
    assert {move.partition for move in moves if move.source != leaving} <= {  # stripes that lay on two shards
        move.partition for move in moves if move.source == leaving
    }
    assert leaving not in {move.target for move in moves}
    after = carried_out(owners, moves)
    assert leaving not in after.values()
    assert len(after) == keys.SLOTS
    if count > 2:
        counts = held(after, partitions)
        assert max(counts.values()) - min(counts.values()) <= 2


def test_a_stripe_moves_with_the_slot_of_its_partition() -> None:
    for move in reshard.even(split(2), ["a", "b", "c"], 64):
        assert list(move.slots) == list(reshard.stripe(move.partition, 64))
        assert keys.slot_of(keys.raw(keys.tags(64)[move.partition])) in move.slots


def test_sources_take_turns() -> None:
    sources = [move.source for move in reshard.even(split(2), ["a", "b", "c"], 64)]
    assert sources[:6] == ["a", "b"] * 3


def test_what_makes_no_plan() -> None:
    with pytest.raises(UsageError, match="last shard"):
        reshard.emptied(split(1), ["a"], "a", 64)
    owners = split(2)
    del owners[keys.slot_of(keys.raw(keys.tags(64)[5]))]
    with pytest.raises(TemporaryError, match="no shard owns slot"):
        reshard.even(owners, ["a", "b"], 64)


LINES = b"""\
aa 10.0.0.1:7001@17001 myself,master - 0 0 3 connected 0-2 5 [7->-bb] [9-<-cc]
bb 10.0.0.2:7001@17001,name master - 0 0 2 connected 6-8
cc :0@0 master,noaddr - 0 0 1 disconnected
dd 10.0.0.4:7001@17001 slave bb 0 0 2 connected
ee 10.0.0.5:7001@17001 handshake - 0 0 0 connected
"""


def test_what_a_member_says_about_itself_and_others() -> None:
    asked = Address("10.0.0.9", 7001)
    own = nodes.own(LINES, asked)
    assert (own.id, own.address, own.master, own.epoch) == ("aa", asked, "", 3)
    assert (own.slots, own.migrating, own.importing) == (frozenset({0, 1, 2, 5}), {7: "bb"}, {9: "cc"})
    others = nodes.others(LINES, asked)
    assert [(one.id, str(one.address), one.master, one.owns_slots) for one in others] == [
        ("bb", "name:7001", "", True),
        ("dd", "10.0.0.4:7001", "bb", False),
    ]
