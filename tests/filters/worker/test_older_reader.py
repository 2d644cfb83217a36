"""A reader of before 0.1.0 beside a filter of today: the keys that it would read faster from are absent, and it reads
everything instead; their absence is never taken for hosts that are well.

Until then filters wrote records side by side (``hosts:{tag}:SLOT``) and what commits changed (``hosts:{tag}:changes``)
while readers asked for it (``sought:{tag}``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from acquisition.link.cluster import Cluster
from acquisition.model.identity import host_id
from acquisition.wire import keys, position
from filters.worker.loop.worker import Worker
from tests.support.data_center import KEEP_TICKS, Guest, Machine, run, smooth, smoothing

TAGS = keys.tags(keys.DEFAULT_PARTITIONS)
FOLLOWS, ASKS = b"2", b"1"  #: what such a reader sets ``sought:{tag}`` to
FEWEST = 8  #: hosts of a partition from which on records were written side by side


class At(NamedTuple):
    """How far such a reader has followed a partition."""

    commit: bytes
    since: bytes


def chain(at: At, commit: Any, entries: Any) -> tuple[list[Any], At] | None:
    """As that reader decided (`chain` of the code before 27 November 2026): None, and everything is read,
    unless the entries lead to the newest commit."""
    if not isinstance(commit, (bytes, type(None))) or not isinstance(entries, list):
        return None
    newest, found, known, since = position.id_of(commit), [], at.commit, at.since
    reached = newest == known
    for entry, fields in entries:
        change = dict(zip(fields[::2], fields[1::2], strict=True))
        since = b"(" + entry
        if change[b"before"] == known:
            found.append(change)
            known = change[b"commit"]
            reached = reached or newest == known
        elif found:
            return None
    return (found, At(known, since)) if reached else None


def asks_alone(lengths: list[Any]) -> bool:
    """As that reader decided whether to ask for each record under its own key
    (`SetReader` of that code)."""
    return 2 * sum(isinstance(each, (bytes, int)) and bool(each) for each in lengths) <= len(lengths)


@pytest.fixture
def worker(cluster: Cluster) -> Iterator[Worker]:
    with smoothing(cluster) as worker:
        yield worker


def neighbours(cluster: Cluster) -> tuple[str, list[Machine]]:
    """A partition with so many hosts that their records were written side by side."""
    names = (f"h{number}" for number in range(100_000))
    here = [name for name in names if keys.partition_of(host_id(name), keys.DEFAULT_PARTITIONS) == 0][: 2 * FEWEST]
    return TAGS[0], [Machine(cluster, name, [Guest(f"v-{name}", 1.0, 4)]) for name in here]


@pytest.mark.parametrize("sought", [ASKS, FOLLOWS])
def test_an_older_reader_reads_everything_beside_a_new_filter(cluster: Cluster, worker: Worker, sought: bytes) -> None:
    tag, machines = neighbours(cluster)
    for each in TAGS:
        cluster.call(f"sought:{{{each}}}", "SET", f"sought:{{{each}}}", sought, "EX", "600")
    tick = run(worker, machines)
    changes = f"hosts:{{{tag}}}:changes"

    def commit() -> Any:
        return cluster.call(keys.commit(tag), "GET", keys.commit(tag))

    at = At(position.id_of(commit()), b"0-0")
    assert chain(at, commit(), cluster.call(changes, "XRANGE", changes, at.since, "+")) == ([], at)  # nothing is new
    for machine in machines:
        machine.send(tick + 1.5)
    smooth(worker, machines, tick + 1)
    assert chain(at, commit(), cluster.call(changes, "XRANGE", changes, at.since, "+")) is None
    slots = [f"hosts:{{{tag}}}:{slot}" for slot in range(KEEP_TICKS)]
    assert asks_alone([cluster.call(slot, "STRLEN", slot) for slot in slots])
    assert [cluster.call(slot, "GET", slot) for slot in slots] == [None] * KEEP_TICKS
