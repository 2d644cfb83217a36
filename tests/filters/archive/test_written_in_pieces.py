"""A transaction of many rows of one table, which the server takes while those that follow are made ready."""

from __future__ import annotations

import pytest

from filters.archive.database import writing
from filters.archive.database.errors import ArchiveRejected
from filters.archive.database.store import open_store
from tests.support.archive_rows import BIG, batch, episode, rows


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_PIECE", 3)


@pytest.mark.parametrize("count", [3, 7, 9])
def test_new_and_known_rows_are_there_once(migrated: str, count: int) -> None:
    with open_store(migrated) as store:
        assert store.commit(batch(episodes=tuple(episode(n) for n in range(count))))
        known = [episode(n, samples=50 + n) for n in range(count)]
        assert store.commit(batch(BIG, 8, episodes=(*known, episode(count), known[0])))
    assert sorted(rows(migrated, "SELECT samples FROM episodes")) == [(3,), *((50 + n,) for n in range(count))]


def test_a_row_that_cannot_be_sent_takes_those_before_it_back(migrated: str) -> None:
    with open_store(migrated) as store:
        with pytest.raises(ArchiveRejected):
            store.commit(batch(episodes=(*(episode(n) for n in range(7)), episode(8, samples=1 << 70))))
        assert rows(migrated, "SELECT samples FROM episodes") == []
        assert store.commit(batch(episodes=(episode(1),)))
