"""That a database went back is told once, whenever the archiver dies that has seen it."""

from __future__ import annotations

import pytest

from acquisition.link.cluster import Cluster
from acquisition.wire import keys, readers
from acquisition.wire.readers import Reader
from filters.archive.database.store import Store, open_store
from filters.archive.following import claims
from filters.archive.following.follower import Follower
from tests.support.archive_rows import rows
from tests.support.archive_scene import Streams, archiver, turn_until

TOLD = "SELECT time FROM events WHERE kind = 'database_went_back'"


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "EVERY", 0.05)


class Scene:
    """A partition that is archived up to its 150th second, and claimed up to its 350th: the database went back."""

    def __init__(self, cluster: Cluster, store: Store) -> None:
        self.cluster, self.store = cluster, store
        self.streams = Streams(cluster, hosts=(7,))
        self.key = keys.readers(self.streams.tag(7))
        self.streams.push(0, 150)
        first = self.archiver()
        turn_until(first, lambda: first.counts.archived == 600)
        turn_until(first, lambda: self.claim.archived == 600)
        self.later = b"%d-0" % ((self.streams.began + 350) * 1000)
        cluster.call(self.key, "HSET", self.key, "archive", readers.encode(self.claim._replace(cursor=self.later)))

    def archiver(self) -> Follower:
        return archiver(self.cluster, self.store, "one", grace=0.2)

    def gone_on(self) -> Follower:
        """The next archiver, which has archived the rest."""
        self.streams.push(150)
        other = self.archiver()
        turn_until(other, lambda: other.counts.archived == self.streams.samples)
        return other

    @property
    def claim(self) -> Reader:
        return readers.decode(self.cluster.call(self.key, "HGET", self.key, "archive"))


def test_write_of_dying_archiver_is_repeated_by_next(
    cluster: Cluster, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(migrated) as store:
        scene = Scene(cluster, store)
        with monkeypatch.context() as dying:
            dying.setattr(Follower, "_close_what_is_due", lambda *_, **__: False)
            one = scene.archiver()
            turn_until(one, lambda: one.counters["went_back"] == 1)
            turn_until(one, lambda: one.clock is not None)
            one._claim()
        assert scene.claim.cursor == scene.later
        assert rows(migrated, TOLD) == []
        other = scene.gone_on()
        assert other.counters["went_back"] == 1
    assert len(rows(migrated, TOLD)) == 1
    scene.streams.assert_archived(migrated)


def test_archiver_that_dies_between_commit_and_claim_has_written(
    cluster: Cluster, migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_store(migrated) as store:
        scene = Scene(cluster, store)
        with monkeypatch.context() as dying:
            dying.setattr(claims, "commands", lambda *_: [])
            one = scene.archiver()
            turn_until(one, lambda: len(rows(migrated, TOLD)) == 1)
        assert scene.claim.cursor == scene.later
        other = scene.gone_on()
        turn_until(other, lambda: scene.claim.cursor > scene.later)
        assert other.counters["went_back"] == 0
    assert len(rows(migrated, TOLD)) == 1
    scene.streams.assert_archived(migrated)
