"""The books: the balance by itself, and read from shards."""

from __future__ import annotations

import pytest

from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster, read_layout
from acquisition.shards.launch import Shards
from acquisition.snapshot import books
from acquisition.snapshot.books import Account, balance, totals
from acquisition.wire import keys, position
from acquisition.wire.position import Position
from acquisition.wire.status import SetStatus

EPOCH = 9


def sent(made: int = 100, sent_samples: int = 80, sent_id: str = "8-0", epoch: int = EPOCH) -> SetStatus:
    """Frames of one sample each: 100 made, 80 acknowledged."""
    return SetStatus(epoch, made, made, 1, sent_samples, sent_id, sent_samples, 0, 3, 0, 0, 0)


def done(applied: int, lost: int = 0, before: int = 0, epoch: int = EPOCH) -> Position:
    sequence = before + applied + lost
    return Position(epoch, sequence, 0, 0.0, 1.0, before=before, applied=applied, lost=lost, frames=applied)


def account(status: SetStatus | None, known: Position | None, cursor: bytes = b"9-0") -> Account:
    return balance(1, "alpha", 2, status, known, cursor)


@pytest.mark.parametrize(
    ("status", "known", "cursor", "expected"),
    [
        # made, lost, duplicated, pending
        (sent(), done(80), b"9-0", (100, 0, 0, 20)),
        (sent(), done(60), b"7-9", (100, 0, 0, 40)),  # the filter has not read so far
        (sent(), done(60), b"8-0", (100, 20, 0, 20)),  # it has, and 20 are missing
        (sent(), done(50, lost=30), b"9-0", (100, 30, 0, 20)),
        (sent(), done(20, before=60), b"9-0", (100, 0, 0, 20)),
        (sent(), done(100), b"9-0", (100, 0, 0, 0)),
        (sent(), done(120), b"9-0", (120, 0, 0, 0)),  # the status is older than the position
        (sent(), done(101)._replace(sequence=100), b"9-0", (100, 0, 1, 0)),  # something counted twice
        (sent(), None, b"", (100, 0, 0, 100)),
        (sent(), None, b"9-0", (100, 80, 0, 20)),
        (sent(), done(70, epoch=5), b"7-0", (100, 0, 0, 100)),
        (sent(sent_id=""), done(60), b"9-0", (100, 0, 0, 40)),  # it went back: all of it is on its way
        (None, done(60, lost=5, before=10), b"9-0", (75, 5, 0, 0)),
    ],
)
def test_balance(status: SetStatus | None, known: Position | None, cursor: bytes, expected: tuple[int, ...]) -> None:
    found = account(status, known, cursor)
    assert (found.made, found.lost, found.duplicated, found.pending) == expected
    assert found.made + found.duplicated == found.before + found.applied + found.lost + found.pending
    assert found.balanced == (found.lost == found.duplicated == 0)


def test_totals() -> None:
    rows = [account(sent(), done(60), b"8-0"), account(sent(), done(80)), account(None, done(60))]
    found = totals(rows)
    assert (found.accounts, found.made, found.applied, found.lost, found.pending) == (3, 260, 200, 20, 40)
    assert (found.unbalanced, found.unreported) == (1, 1)
    assert totals([]).accounts == 0


def test_records_that_cannot_be_read_count_as_absent(cluster: Cluster) -> None:
    layout = read_layout(cluster)
    tag = layout.tag_of(1)
    cluster.call(keys.status(tag, 1), "SET", keys.status(tag, 1), b"{")
    cluster.call(keys.status(tag, 1), "SET", f"status:{{{tag}}}:no-host", b"{}")
    good, bad, odd = keys.member(1, 2), keys.member(1, 3), "no member"
    key = keys.applied(tag)
    cluster.call(key, "HSET", key, good, position.encode(done(5)), bad, b"short", odd, position.encode(done(5)))
    rows = books.read_books(cluster, layout)
    assert [(row.host, row.resource_set, row.applied, row.reported) for row in rows] == [(1, 2, 5, False)]


def test_books_with_a_shard_missing_are_refused(cluster: Cluster, shards: Shards) -> None:
    layout = read_layout(cluster)
    broken = Cluster(shards.addresses)
    broken.refresh()
    wrong = layout.tags[0]
    key = keys.applied(wrong)
    cluster.call(key, "SET", key, "not a hash")
    with pytest.raises(ShardpulseError, match="WRONGTYPE"):
        books.read_books(broken, layout)
    broken.close()
