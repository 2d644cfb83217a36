"""The balance of one account: every state of a pipeline, and counts that contradict each other."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.snapshot.reconcile.balance import ENDED, RENUMBERED, SILENT, Counts
from acquisition.wire import position
from acquisition.wire.position import Position
from acquisition.wire.status import SetStatus
from tests.support.accounts import EPOCH, account, done, sent


@pytest.mark.parametrize(
    ("status", "known", "cursor", "expected"),
    [
        # made, before, lost, pending, missing
        (sent(), done(80), b"9-0", (100, 0, 0, 20, 0)),
        (sent(), done(60), b"7-9", (100, 0, 0, 40, 0)),  # the filter has not read so far
        (sent(), done(60), b"8-0", (100, 0, 0, 40, 20)),  # it has, and 20 are missing: they will be sent again
        (sent(floor=71), done(60), b"8-0", (100, 0, 10, 30, 10)),  # 10 of these will not
        (sent(floor=71), done(60), b"7-9", (100, 0, 0, 40, 0)),  # but they may be in the stream
        (sent(floor=90), done(60), b"9-0", (100, 0, 0, 40, 0)),  # or be on their way to it
        (sent(floor=90)._replace(next=81), done(60), b"9-0", (100, 0, 29, 11, 0)),  # they are not: 90 is sent next
        (sent(sent_id=""), done(60), b"9-0", (100, 0, 0, 40, 0)),  # it went back: all of it is on its way
        (sent(), done(50, lost=30), b"9-0", (100, 0, 30, 20, 0)),
        (sent(), done(20, before=60), b"9-0", (100, 60, 0, 20, 0)),
        (sent(floor=61, dropped=45), done(20, before=60), b"9-0", (100, 35, 25, 20, 0)),  # dropped, never applied
        (sent(), done(100), b"9-0", (100, 0, 0, 0, 0)),
        (sent(), done(120), b"9-0", (120, 0, 0, 0, 0)),  # the status is older than the position
        (sent(), None, b"", (100, 0, 0, 100, 0)),
        (sent(), None, b"9-0", (100, 0, 0, 100, 80)),
        (sent(), done(70, epoch=5), b"7-0", (100, 0, 0, 100, 0)),  # a new epoch that the filter has not read
        (None, done(60, lost=5, before=10), b"9-0", (75, 10, 5, 0, 0)),
    ],
)
def test_every_sample_is_somewhere(
    status: SetStatus | None, known: Position | None, cursor: bytes, expected: tuple[int, ...]
) -> None:
    found = account(status, known, cursor)
    assert (found.made, found.before, found.lost, found.pending, found.missing) == expected
    assert found.made == found.before + found.applied + found.lost + found.pending
    assert (found.faults, found.difference, found.duplicated) == ((), 0, 0)


def test_an_older_epoch_in_the_status_than_in_the_stream() -> None:
    found = account(sent(), done(7, epoch=5), b"9-0")
    assert (found.epoch, found.made, found.applied, found.pending, found.report) == (5, 7, 7, 0, RENUMBERED)
    assert found.balanced
    assert not found.known


def test_a_probe_that_stopped_in_order_has_nothing_pending() -> None:
    found = account(sent(), done(100, flags=position.ENDED), report=SILENT)
    assert (found.report, found.known) == (ENDED, True)
    assert account(sent(), done(90, flags=position.ENDED), report=SILENT).report == SILENT
    assert account(None, done(90, flags=position.ENDED)).report == ENDED


@pytest.mark.parametrize(
    ("status", "known", "words"),
    [
        (sent(), done(100)._replace(applied=101), "1 samples are counted more than once"),
        (sent(), done(90)._replace(applied=80), "10 samples are unaccounted for"),
        (sent(), done(90)._replace(lost=10), "10 samples are counted more than once"),
        (None, done(90)._replace(before=1), "1 samples are counted more than once"),
        (sent(), done(90)._replace(invalid=91), "applied samples are reported invalid"),
        (sent(), done(90)._replace(frames=91), "91 frames applied"),
        (sent(), done(120)._replace(sequence=100), "number 100, 120 samples made"),
        (sent(), done(80)._replace(applied=85, made=85), "number 80, 85 samples made"),
        (sent()._replace(made=70), done(80), "number 100, 70 samples made"),
        (sent()._replace(made=200), done(100), "number 100, 200 samples made"),
        (sent()._replace(made=90), done(100), "number 100, 90 samples made"),
        (sent()._replace(sent_samples=79), done(80), "number 80, 79 samples made"),
        (sent()._replace(floor_samples=1), done(80), "no longer in the probe's ring (number 0, 1 samples"),
        (sent()._replace(frames=0), done(80), "number 0, 100 samples made"),
    ],
)
def test_counts_that_contradict_each_other_are_named(status: SetStatus | None, known: Position, words: str) -> None:
    found = account(status, known)
    assert not found.balanced
    assert any(words in fault for fault in found.faults), found.faults


@given(st.randoms(use_true_random=False), st.data())
def test_readings_of_any_age_never_contradict_each_other(choice: random.Random, data: st.DataObject) -> None:
    """A model probe and filter: whatever is read from any moment of each, the balance holds."""
    sizes = data.draw(st.lists(st.integers(0, 5), min_size=1, max_size=30))
    before = [sum(sizes[:n]) for n in range(len(sizes) + 1)]
    frames = choice.randint(0, len(sizes))
    acked = choice.randint(0, frames)
    floor = choice.randint(1, frames + 1)
    status = SetStatus(
        EPOCH, before[frames], frames, floor, acked, f"{acked}-1" if acked else "", before[acked], 0, 0, 0, 0, 0,
        before[floor - 1],
    )  # fmt: skip
    sequence, start = choice.randint(0, len(sizes)), 0
    lost = sum(size for size in sizes[:sequence] if choice.random() < 0.1)
    if sequence:
        start = min(choice.randint(0, 3), before[sequence] - lost)
    known = Position(
        EPOCH, sequence, 0, 0.0, 1.0, 0, start, before[sequence] - lost - start, 0, lost, made=before[sequence]
    )
    found = account(status, known, b"%d-%d" % (choice.randint(0, len(sizes)), choice.randint(0, 2)))
    assert found.balanced, found.faults
    assert found.made == found.before + found.applied + found.lost + found.pending
    assert min(getattr(found, name) for name in Counts.__struct_fields__) >= 0
    assert found.missing <= found.pending
    assert found.unsent <= found.pending


counts = st.integers(0, 2**64 - 1)


@given(st.lists(counts, min_size=14, max_size=14), st.lists(counts, min_size=12, max_size=12), st.text(max_size=20))
def test_any_numbers_are_judged_and_the_sums_add_up_or_are_named(a: list[int], b: list[int], stream: str) -> None:
    known = Position(EPOCH, a[0], 0, float("nan"), 1.0, 0, *a[1:9], made=a[9])
    status = SetStatus(EPOCH, *b[:4], stream, *b[4:11])
    found = account(status, known)
    assert found.balanced or found.faults
    assert not (found.difference and found.balanced)


def test_what_was_applied_is_not_lost_when_the_filters_record_is_gone() -> None:
    """The ring holds 11 to 100; the probe had read that 70 of them were applied."""
    found = account(sent(floor=11)._replace(applied=70), None)
    assert (found.before, found.applied, found.lost, found.pending, found.faults) == (10, 0, 0, 90, ())


def test_unapplied_frame_dropped_from_ring_is_lost() -> None:
    found = account(sent(floor=11, dropped=10), None)
    assert (found.before, found.lost, found.pending, found.faults) == (0, 10, 90, ())
