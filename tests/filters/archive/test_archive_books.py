"""made = archived + gap + pending, of each host: in the shards, in ``status --host`` and in ``archive status``."""

from __future__ import annotations

import json
import time

import pytest

from acquisition.cli import main
from acquisition.errors import EXIT_DATA, EXIT_OK, EXIT_TEMPORARY, EXIT_UNAVAILABLE, EXIT_UNBALANCED
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.shards.servers.launch import Shards
from acquisition.snapshot.reconcile import registered
from acquisition.wire import archived, keys, status
from acquisition.wire.archived import Archived
from acquisition.wire.status import SetStatus
from filters.archive.database.store import open_store
from filters.archive.following import claims
from filters.archive.minutes.numbers import Numbers, Span, extend
from tests.support.archive_scene import SET, Streams, archiver, turn_until

PER_FRAME = 4


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "EVERY", 0.2)


def told(cluster: Cluster) -> dict[int, Archived]:
    return {host: row for (host, _), row in registered.read_archived(cluster, read_layout(cluster)).items()}


def asked(capsys: pytest.CaptureFixture[str], code: int, shards: Shards, *command: str) -> str:
    """What a command prints."""
    capsys.readouterr()
    assert main([*command, "--shards", ",".join(map(str, shards.addresses))]) == code
    return capsys.readouterr().out


def report(cluster: Cluster, streams: Streams, host: int, frames: int) -> None:
    """A probe's own account of what it made."""
    made = SetStatus(1, frames * PER_FRAME, frames, 1, frames - 1, "", (frames - 1) * PER_FRAME, 0, 0, 0, 0, 0)
    key = keys.status(streams.tag(host), host)
    cluster.call(key, "SET", key, status.encode("alpha", time.time(), {SET: made}, {}), "PX", 600_000)


def test_each_host_balances_at_every_moment(
    cluster: Cluster, shards: Shards, migrated: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One host is whole, one has lost frames, and the newest frame of the first is still at its probe."""
    assert "no archiver" in asked(capsys, EXIT_TEMPORARY, shards, "archive", "status")
    streams = Streams(cluster, hosts=(7, 8))
    del streams.frames[8][100:110]
    found: dict[int, Archived] = {}

    def is_whole() -> bool:
        found.update(told(cluster))
        assert not any(row.difference for row in found.values())
        return sum(row.archived for row in found.values()) == 790 * PER_FRAME

    with open_store(migrated) as store:
        follower = archiver(cluster, store, grace=0.2)
        streams.push(0, 250)
        turn_until(follower, lambda: bool(told(cluster)))
        streams.push(250)
        turn_until(follower, is_whole)
    assert (found[7][4:], found[8][4:]) == ((1600, 1600, 0, 0), (1600, 1560, 40, 0))

    report(cluster, streams, 7, 401)
    document = json.loads(asked(capsys, EXIT_OK, shards, "archive", "status", "--json"))
    assert document["hosts"] == [
        {"host": f"{8:016x}", "name": "", "made": 1600, "archived": 1560, "gap": 40, "pending": 0, "difference": 0},
        {"host": f"{7:016x}", "name": "alpha", "made": 1604, "archived": 1600, "gap": 0, "pending": 4, "difference": 0},
    ]
    assert document["readers"][0]["archived"] == 3160
    assert asked(capsys, EXIT_OK, shards, "archive", "status", "--host", "alpha").splitlines()[-1].split() == [
        "alpha", "1,604", "1,600", "0", "4"
    ]  # fmt: skip
    asked(capsys, EXIT_DATA, shards, "archive", "status", "--host", "nobody")

    (row,) = json.loads(asked(capsys, EXIT_UNAVAILABLE, shards, "status", "--host", "alpha", "--json"))["hosts"]
    wanted = {"made": 1604, "archived": 1600, "gap": 0, "pending": 4, "unread": 4, "difference": 0}
    assert row["archive"] == wanted
    assert "1,600 archived" in asked(capsys, EXIT_UNAVAILABLE, shards, "status", "--host", "alpha")

    key = keys.archived(streams.tag(7))
    cluster.call(key, "SET", key, archived.encode([found[7]._replace(archived=1500)]))
    assert "100 UNACCOUNTED FOR" in asked(capsys, EXIT_UNBALANCED, shards, "archive", "status")
    assert "are unaccounted for" in asked(capsys, EXIT_UNBALANCED, shards, "status")


def test_a_tombstone_is_counted_once_whatever_is_read_again() -> None:
    """Frame 3 comes after 8 samples that its sender gave up; it, or the frame before it, comes late, or again."""
    for order in ((2, 3, 4), (3, 2, 4), (4, 3, 2), (2, 4, 3)):
        known = Numbers.before(1, 0)
        spans: list[Span] = []
        known.take(1, 0, 4, 0)
        made = {2: 4, 3: 16, 4: 20}
        for sequence in order:
            assert known.take(sequence, made[sequence], 4, 0)
            extend(spans, sequence, made[sequence], 4, 0)
        assert (known.made - known.began, known.gap, known.waiting) == (24, 8, 0)
        again = known.without(spans)  # as they are in memory alone
        assert (again.newest, again.made, again.gap, again.waiting) == (1, 4, 0, 0)
        for sequence in (2, 3, 4):
            assert again.take(sequence, made[sequence], 4, 0)
        assert (again.made, again.gap, again.waiting) == (24, 8, 0)
