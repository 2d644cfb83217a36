"""The decision which partitions to take and to give: fair, minimal, and it always comes to an end."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters.leases import ownership
from filters.leases.ownership import Ownership

PARTITIONS = 64
WORKERS = [b"%016x 2000 host:%d" % (n * 7919, n) for n in range(1, 9)]


class Shards:
    """The leases of all partitions, with workers that come and go and decide in turn."""

    def __init__(self, partitions: int, alive: list[bytes]) -> None:
        self.holders: dict[int, bytes] = dict.fromkeys(range(partitions), b"")
        self.alive = list(alive)
        self.moves = 0

    def remove(self, worker: bytes) -> None:
        self.alive.remove(worker)
        for number, holder in self.holders.items():
            if holder == worker:
                self.holders[number] = b""

    def round(self, order: list[bytes]) -> bool:
        """Everyone decides once on what everyone saw before; whether anything changed."""
        known = {n: Ownership(holder, frozenset(self.alive)) for n, holder in self.holders.items()}
        changed = False
        for me in order:
            held = [n for n, holder in self.holders.items() if holder == me]
            found = ownership.plan(me, len(self.holders), known, held, ())
            for number in found.give:
                assert self.holders[number] == me
                self.holders[number] = b""
                changed = True
            for number in found.take:
                if not self.holders[number]:  # the lease decides
                    self.holders[number] = me
                    self.moves += 1
                    changed = True
        return changed

    def settle(self) -> dict[bytes, int]:
        for _ in range(20):
            if not self.round(self.alive):
                break
        else:
            pytest.fail("it never settles")
        counts = Counter(self.holders.values())
        assert not counts[b""]
        return {worker: counts[worker] for worker in self.alive}


@given(
    partitions=st.integers(1, 200),
    first=st.integers(1, 5),
    events=st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=8),
)
def test_every_change_settles_in_even_shares(partitions: int, first: int, events: list[tuple[bool, int]]) -> None:
    shards = Shards(partitions, WORKERS[:first])
    shards.settle()
    for joins, which in events:
        worker = WORKERS[which]
        if joins and worker not in shards.alive:
            shards.alive.append(worker)
        elif not joins and worker in shards.alive and len(shards.alive) > 1:
            shards.remove(worker)
        counts = shards.settle().values()
        assert max(counts) - min(counts) <= 1


def test_a_joining_worker_moves_its_own_share_only() -> None:
    shards = Shards(PARTITIONS, WORKERS[:3])
    shards.settle()
    shards.moves = 0
    shards.alive.append(WORKERS[3])
    shards.settle()
    assert shards.moves == PARTITIONS // 4


def test_a_leaving_worker_moves_what_it_had_only() -> None:
    shards = Shards(PARTITIONS, WORKERS[:4])
    shards.settle()
    shards.moves = 0
    shards.remove(WORKERS[0])
    shards.settle()
    assert shards.moves == PARTITIONS // 4


def test_nothing_is_given_to_a_worker_that_does_not_reach_the_shard() -> None:
    me, other = WORKERS[:2]
    near = {n: Ownership(me, frozenset([me])) for n in range(32)}
    far = {n: Ownership(me, frozenset([me, other])) for n in range(32, 40)}
    found = ownership.plan(me, 40, near | far, range(40), ())
    assert set(found.give) == set(range(32, 40))


def test_what_nobody_takes_is_taken_by_whoever_waits_for_it() -> None:
    me, other = WORKERS[:2]
    known = {n: Ownership(me, frozenset([me, other])) for n in range(32)} | {32: Ownership(b"", frozenset([me]))}
    assert ownership.plan(me, 33, known, range(32), ()).take == []
    assert ownership.plan(me, 33, known, range(32), (32,)).take == [32]


def test_what_a_worker_still_has_in_memory_comes_first() -> None:
    known = {n: Ownership(b"", frozenset(WORKERS[:2])) for n in range(PARTITIONS)}
    held = [5, 17, 60]
    assert set(ownership.plan(WORKERS[0], PARTITIONS, known, held, ()).take[:3]) == set(held)
