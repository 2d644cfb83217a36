"""Somebody with the password of a probe makes frames of another host of its partition: refused, named and told where
hosts sign, and taken for that host's where they do not."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from acquisition.shards.topology.nodes import Members
from acquisition.snapshot.reconcile import books
from acquisition.status import health
from acquisition.wire import frame, keys, position, signature
from acquisition.wire.position import CONTESTED
from acquisition.wire.rejected import Rejected
from acquisition.wire.signature import Verifier
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.applied import events_of, rejected_of
from tests.support.granted import granted
from tests.support.intruder import Intruded
from tests.support.writer_bench import HOST, SET

MASTER, BEFORE, STRANGE = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
SIGNED, UNSIGNED = True, False


class Bench(Intruded):
    """The intruder is on a host of the same partition, with a key of its own."""

    def __init__(self, shards: Shards, cluster: Cluster) -> None:
        super().__init__(shards, cluster)
        self.neighbour = HOST + self.layout.partitions

    def verify(self, verifier: Verifier | None) -> None:
        """A filter that asks for this begins, or takes over."""
        self.stop_filter()
        number = keys.partition_of(HOST, self.layout.partitions)
        self.worker = lone_worker(
            self.own, self.layout, FilterSettings(verifier=verifier), [number], report=self.said.append
        )

    def sign(self, master: bytes, host: int = HOST) -> None:
        self.writer.sign_with(signature.signer(signature.host_key(master, host)))

    def push(self, *fields: bytes) -> bytes:
        return self.forge("XADD", self.raw, "*", *fields)

    def refusals(self) -> list[Rejected]:
        return rejected_of(self.cluster, self.tag)

    def refuses(self, count: int) -> list[Rejected]:
        self.turn_until(lambda: len(self.refusals()) >= count)
        return self.refusals()

    def raw_entries(self) -> list[list[bytes]]:
        return [fields for _, fields in self.cluster.call(self.raw, "XRANGE", self.raw, "-", "+")]


@pytest.fixture
def bench(shards: Shards, cluster: Cluster) -> Iterator[Bench]:
    with granted(shards):
        made = Bench(shards, cluster)
        yield made
        made.close()


def following(bench: Bench, value: float = 0.99) -> bytes:
    """The frame that would be the next one of the host's own set, as somebody else would have it."""
    known = bench.position()
    assert known is not None
    now = time.time()
    return frame.encode(
        frame.Frame(
            frame.KIND_SAMPLES, 1, HOST, SET, 1, 2, 1.0, known.epoch, known.sequence + 1, 1, known.made, bench.tick + 1,
            now, bench.tick + 1.0, struct.pack("<Q", 1), struct.pack("<2f", value, value),
        )
    )  # fmt: skip


def test_forged_frame_is_refused_and_reported_books_balance(bench: Bench, shards: Shards) -> None:
    bench.verify(Verifier([MASTER]))
    bench.sign(MASTER)
    bench.applies()
    before = bench.position()
    assert before is not None
    forged, whose = following(bench), signature.host_key(MASTER, bench.neighbour)
    entries = [
        bench.push(b"f", forged),
        bench.push(b"f", forged, b"s", signature.sign(whose, forged)),  # all that it can sign with
        bench.push(b"f", forged, b"s", bytes(20)),
    ]
    found = bench.refuses(3)
    assert [one.entry for one in found] == entries
    assert {one.reason for one in found} == {"signature"}
    assert found[0].message == f"unsigned frame of host {HOST:016x}"
    assert found[1].message == f"wrong signature of a frame of host {HOST:016x}"
    assert any("signature: unsigned frame of host" in text for text in bench.said)
    (event,) = events_of(bench.cluster, [bench.tag], "signature")  # one for all of them
    assert (event.host, event.details["entry"]) == (HOST, entries[0].decode())
    assert bench.position() == before
    bench.applies()
    account = bench.assert_everything_applied_once()
    assert (account.gaps, account.contested) == (0, False)
    assert bench.writer.refused == ""
    known = bench.cluster.call(keys.commit(bench.tag), "GET", keys.commit(bench.tag))
    assert position.decode_commit(known).rejected == 3
    assert not [row for row in books.read_books(bench.cluster, bench.layout) if row.host != HOST]


def test_without_signatures_it_is_taken_for_the_hosts(bench: Bench) -> None:
    bench.verify(None)
    bench.applies()
    before = bench.position()
    assert before is not None
    bench.push(b"f", following(bench))
    bench.turn_until(lambda: bench.position() != before)
    assert not bench.refusals()


def test_a_frame_that_was_signed_once_is_not_applied_twice(bench: Bench) -> None:
    bench.verify(Verifier([MASTER]))
    bench.sign(MASTER)
    bench.applies()
    seen = bench.raw_entries()
    before = bench.position()
    assert before is not None
    for fields in seen:  # who could read the stream
        bench.push(*fields)
    bench.turn_until(lambda: (found := bench.position()) is not None and found.duplicates >= len(seen))
    after = bench.position()
    assert after is not None
    assert after._replace(duplicates=0) == before._replace(duplicates=0)
    bench.applies()
    assert bench.account().contested is False


def test_host_with_wrong_key_reports_it_and_loses_nothing(bench: Bench, shards: Shards) -> None:
    bench.verify(Verifier([MASTER]))
    bench.sign(MASTER, bench.neighbour)
    bench.offer(5)
    bench.turn_until(lambda: bench.writer.refused == "signature")
    bench.turn_until(lambda: "signature refused" in told_by_status(bench, shards))
    assert bench.position() is None
    assert bench.writer.account()["dropped_frames"] == 0
    bench.sign(MASTER)
    bench.turn_until(bench.is_applied)
    assert bench.writer.refused == ""
    bench.applies()
    account = bench.assert_everything_applied_once()
    assert (account.lost, account.gaps) == (0, 0)
    bench.turn_until(lambda: "signature refused" not in told_by_status(bench, shards))


def told_by_status(bench: Bench, shards: Shards) -> str:
    with Members(shards.addresses, None, 2.0) as members:
        found = health.read(bench.cluster, members, {}).findings
    return "\n".join(finding.text for finding in found if finding.about == "host alpha")


def test_masters_are_exchanged_while_samples_flow(bench: Bench) -> None:
    bench.verify(Verifier([BEFORE]))
    bench.sign(BEFORE)
    bench.applies()
    bench.verify(Verifier([MASTER, BEFORE]))
    bench.applies()
    bench.sign(MASTER)
    bench.applies()
    bench.verify(Verifier([MASTER]))
    bench.applies()
    assert not bench.refusals()
    account = bench.assert_everything_applied_once()
    assert (account.lost, account.gaps) == (0, 0)
    forged = following(bench)
    bench.push(b"f", forged, b"s", signature.sign(signature.host_key(BEFORE, HOST), forged))
    (found,) = bench.refuses(1)
    assert "another master" in found.message


def test_signatures_come_before_they_are_required(bench: Bench) -> None:
    bench.verify(Verifier([MASTER], required=False))
    bench.applies()  # without
    bench.sign(MASTER)
    bench.applies()
    forged = following(bench)
    bench.push(b"f", forged, b"s", bytes(20))
    assert [one.reason for one in bench.refuses(1)] == ["signature"]
    bench.verify(Verifier([MASTER]))
    bench.applies()
    assert bench.assert_everything_applied_once().lost == 0


def test_who_looks_at_no_signature_takes_signed_frames(bench: Bench) -> None:
    bench.verify(None)
    bench.sign(STRANGE)
    bench.applies()
    assert {fields[2] for fields in bench.raw_entries()} == {keys.SIGNATURE_FIELD}
    assert bench.assert_everything_applied_once().lost == 0


def test_many_names_are_told_within_bounds(bench: Bench) -> None:
    bench.verify(Verifier([MASTER]))
    bench.sign(MASTER)
    bench.applies()
    for number in range(60):
        other = frame.decode(following(bench))._replace(host=HOST + number * bench.layout.partitions)
        bench.push(b"f", frame.encode(other))
    bench.refuses(60)
    told = [event for kind in ("signature", "misnamed") for event in events_of(bench.cluster, [bench.tag], kind)]
    assert len(told) == len({(event.kind, event.host) for event in told}) == 20
    bench.applies()
    assert not [row for row in books.read_books(bench.cluster, bench.layout) if row.host != HOST]


def test_what_begins_an_epoch_that_was_left_long_ago_does_not_last(bench: Bench) -> None:
    """Who has recorded the first frame of an epoch of two epochs ago can have its host taken for two, for a while."""
    bench.verify(Verifier([MASTER]))
    bench.sign(MASTER)
    bench.applies(1)
    (first, *_) = bench.raw_entries()
    window = bench.outbox.windows[SET]
    for _ in range(2):
        bench.outbox.forget(window)
        window.restart(window.epoch + 1)
        bench.applies(3)
    bench.push(*first)
    bench.turn_until(lambda: (found := bench.position()) is not None and found.epoch != window.epoch)

    def is_well() -> bool:
        bench.offer(1)
        found = bench.position()
        return found is not None and found.epoch == window.epoch and not found.flags & CONTESTED

    bench.turn_until(is_well)
    bench.applies()
