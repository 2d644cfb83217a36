"""An archiver holds no more memory after many hosts that have come and gone than after few, and knows them when they
come back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence

from acquisition.link.cluster import Cluster
from filters.archive.database.store import open_store
from filters.archive.following.follower import Follower
from filters.archive.minutes.gathering import Whereabouts
from tests.support.archive_scene import Streams, archiver, found_in, turn_until
from tests.support.archived import assert_equal, reference

HOSTS, FRAMES = 60, 3
PARTITION = 7


def wave(cluster: Cluster, number: int) -> Streams:
    """Hosts of one partition that are there for some seconds, minutes ago."""
    first = number * HOSTS
    return Streams(cluster, [PARTITION + 256 * n for n in range(first, first + HOSTS)], seconds=FRAMES + 1)


def passing(follower: Follower, waves: Sequence[Streams]) -> Iterator[int]:
    """Each wave comes, is archived and goes; how many samples there have been so far."""
    samples = 0
    for number, each in enumerate(waves):
        each.push(0, FRAMES, later=4.0 * number)
        samples += each.samples * FRAMES // (FRAMES + 1)
        turn_until(follower, lambda: follower.counts.archived == samples)  # noqa: B023
        yield samples


def blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


def sets_of(follower: Follower) -> int:
    return len(vars(follower)["_followed"][PARTITION].books)


def test_vanished_host_is_evicted_and_known_on_return(cluster: Cluster, migrated: str) -> None:
    waves = [wave(cluster, number) for number in range(8)]
    held, sets = [], []
    with open_store(migrated) as store:
        follower = archiver(cluster, store, grace=0.1)
        for _ in passing(follower, waves):
            held.append(blocks())
            sets.append(sets_of(follower))
        assert max(sets) < 3 * HOSTS, sets
        assert held[-1] - held[2] < (len(waves) - 3) * HOSTS * 5, held  # a set takes some hundred
        for number, each in enumerate(waves):  # sent again, and what is new
            each.push(later=40.0 + 5.0 * number)
        samples = sum(each.samples for each in waves)
        turn_until(follower, lambda: follower.counts.archived == samples)
        assert follower.counts == (samples, 0, 0)
    frames = [one for each in waves for sent in each.frames.values() for one in sent]
    assert_equal(found_in(migrated), reference(frames))


def test_an_archiver_that_takes_over_knows_them_too(cluster: Cluster, migrated: str) -> None:
    waves = [wave(cluster, number) for number in range(3)]
    with open_store(migrated) as store:
        follower = archiver(cluster, store, grace=0.1)
        *_, samples = passing(follower, waves)
        follower.finish()
        vars(follower)["_leases"].leave()
        waves[0].push(later=20.0)
        again = archiver(cluster, store, grace=0.1)
        turn_until(again, lambda: again.counts == (samples + waves[0].samples // (FRAMES + 1), 0, 0))


def test_of_vms_that_have_vanished_the_newest_are_known() -> None:
    known = Whereabouts()
    for number in range(30_000):
        known.appears(f"vm-{number}", 1, number / 100.0)
        known.vanishes(f"vm-{number}", 1, number / 100.0)
    assert len(known) <= 10_001
    assert known.appears("vm-29999", 2, 301.0) == 1
    assert known.appears("vm-1", 2, 301.0) is None
