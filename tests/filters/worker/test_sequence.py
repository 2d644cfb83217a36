"""The rule of application: in order, each once, loss counted exactly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from acquisition.model import codes
from acquisition.wire.frame import HINT_APPLIED, KIND_END, KIND_SAMPLES, KIND_TABLE, KIND_TOMBSTONE, Frame
from acquisition.wire.position import CONTESTED, MOST_GAPS
from filters.worker.states.sequence import APPLY, DUPLICATE, REFUSE, Track, contested


def numbered(sequence: int, floor: int = 1, made: int | None = None, epoch: int = 9, kind: int = KIND_SAMPLES) -> Frame:
    samples = 2 if kind == KIND_SAMPLES else 0
    return Frame(
        kind, 1, 1, 1, samples // 2, 2, 1.0, epoch, sequence, floor,
        (sequence - 1) * 2 if made is None else made, sequence, float(sequence), float(sequence),
    )  # fmt: skip


def offer(track: Track, frame: Frame) -> int:
    verdict = track.judge(frame)
    if verdict == APPLY:
        track.apply(frame)
    return verdict


def test_in_order_each_once() -> None:
    track = Track()
    assert [offer(track, numbered(n)) for n in (1, 2, 2, 1, 3)] == [APPLY, APPLY, DUPLICATE, DUPLICATE, APPLY]
    assert (track.sequence, track.frames, track.applied, track.duplicates, track.lost) == (3, 3, 6, 2, 0)


def test_newer_is_refused_until_what_is_missing_comes() -> None:
    track = Track()
    offer(track, numbered(1))
    assert offer(track, numbered(3)) == REFUSE
    assert (track.sequence, track.refused, track.lost) == (1, 1, 0)
    assert offer(track, numbered(2)) == APPLY
    assert offer(track, numbered(3)) == APPLY
    assert track.applied == 6


def test_only_the_floor_makes_a_loss() -> None:
    track = Track()
    offer(track, numbered(1))
    assert offer(track, numbered(6, floor=5)) == REFUSE  # 5 is still held: it will be sent
    assert offer(track, numbered(5, floor=5)) == APPLY
    assert (track.lost, track.lost_frames) == (6, 3)
    assert offer(track, numbered(6, floor=5)) == APPLY
    assert track.made == track.before + track.applied + track.lost == 12


def test_what_was_applied_before_the_shards_forgot_it_is_not_lost() -> None:
    track = Track()
    offer(track, numbered(4, floor=4))
    assert offer(track, numbered(9, floor=9)._replace(hints=HINT_APPLIED)) == APPLY
    assert (track.before, track.lost, track.lost_frames, track.applied, track.made) == (14, 0, 0, 4, 18)
    tombstone = numbered(12, floor=12, made=24, kind=KIND_TOMBSTONE)._replace(hints=HINT_APPLIED)
    assert offer(track, tombstone) == APPLY
    assert (track.before, track.lost, track.lost_frames) == (14, 6, 3)  # its own frame was given up
    assert track.made == track.before + track.applied + track.lost


def test_a_position_that_vanished_goes_on_at_the_floor_without_a_loss() -> None:
    track = Track()
    assert offer(track, numbered(50, floor=40)) == REFUSE
    assert offer(track, numbered(40, floor=40)) == APPLY
    assert (track.before, track.lost, track.applied) == (78, 0, 2)


def test_a_new_epoch_starts_counting_anew() -> None:
    track = Track()
    offer(track, numbered(1))
    offer(track, numbered(3))
    assert offer(track, numbered(2, epoch=10)) == REFUSE
    assert offer(track, numbered(1, epoch=10)) == APPLY
    assert (track.epoch, track.applied, track.refused) == (10, 2, 0)


def test_later_epoch_is_gap_of_unknown_size_first_is_not() -> None:
    track = Track()
    offer(track, numbered(1))
    assert track.gaps == 0
    for gaps, epoch in enumerate((10, 11, 9), 1):  # an old epoch that comes back is another change
        assert offer(track, numbered(2, epoch=epoch)) == REFUSE
        assert offer(track, numbered(1, epoch=epoch)) == APPLY
        assert track.gaps == gaps
    again = Track()
    again.restore(track.position())
    offer(again, numbered(1, epoch=12))
    assert again.gaps == 4
    again.gaps = MOST_GAPS
    offer(again, numbered(1, epoch=13))
    assert again.position().gaps == MOST_GAPS


def test_a_tombstone_loses_exactly_the_one_in_whose_place_it_stands() -> None:
    track = Track()
    offer(track, numbered(1))
    tombstone = numbered(2, made=4, kind=KIND_TOMBSTONE)
    assert offer(track, numbered(3)) == REFUSE
    assert [offer(track, tombstone), offer(track, tombstone), offer(track, numbered(3))] == [APPLY, DUPLICATE, APPLY]
    assert (track.applied, track.lost, track.lost_frames, track.frames, track.tick) == (4, 2, 1, 3, 3)
    assert track.made == track.before + track.applied + track.lost == 6


def test_a_tombstone_behind_a_gap_and_at_the_start_of_an_epoch() -> None:
    track = Track()
    offer(track, numbered(1))
    assert offer(track, numbered(5, floor=5, made=10, kind=KIND_TOMBSTONE)) == APPLY  # 2 to 4 are gone as well
    assert (track.lost, track.lost_frames) == (8, 4)
    track = Track()
    assert offer(track, numbered(1, made=2, kind=KIND_TOMBSTONE)) == APPLY
    assert offer(track, numbered(2)) == APPLY
    assert (track.before, track.lost, track.lost_frames) == (0, 2, 1)
    assert track.made == track.before + track.applied + track.lost == 4


def test_finished_epoch_leaves_gap_only_if_more_came_later() -> None:
    track = Track()
    offer(track, numbered(1))
    offer(track, numbered(2, made=2, kind=KIND_END))
    again = Track()
    again.restore(track.position())
    offer(again, numbered(1, epoch=10))
    assert (again.gaps, again.epoch) == (0, 10)
    offer(track, numbered(3, made=2))  # the probe went on
    offer(track, numbered(1, epoch=10))
    assert track.gaps == 1


def test_a_table_counts_as_a_frame_and_leaves_the_tick() -> None:
    track = Track()
    offer(track, numbered(1))
    offer(track, numbered(2, kind=KIND_TABLE))
    assert (track.sequence, track.frames, track.tick, track.applied) == (2, 2, 1, 2)


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=80))
def test_whatever_arrives_the_books_balance(offers: list[tuple[int, int]]) -> None:
    track = Track()
    applied: list[int] = []
    for sequence, floor in offers:
        before = track.sequence
        if offer(track, numbered(sequence, min(floor, sequence))) == APPLY:
            applied.append(sequence)
            assert track.sequence == sequence > before
    assert len(set(applied)) == len(applied) == track.frames
    assert track.applied == 2 * len(applied)
    assert track.made == track.before + track.applied + track.lost


def test_an_epoch_that_was_left_and_goes_on_has_a_sender_of_its_own() -> None:
    """Two machines of one name: the elder goes on where it stood, marked; the younger is refused."""
    track = Track()
    elder = [numbered(n, epoch=1) for n in range(1, 100)]
    younger = [numbered(n, epoch=2) for n in range(1, 200)]
    assert [offer(track, frame) for frame in elder[:5]] == [APPLY] * 5
    assert (offer(track, younger[0]), track.epoch, track.contested) == (APPLY, 2, 0)  # its ring may have been lost
    assert offer(track, elder[2]) == REFUSE  # was on its way
    for number in range(5, 20):
        assert (offer(track, elder[number]), offer(track, younger[number - 4])) == (APPLY, REFUSE)
        assert (track.epoch, track.sequence, bool(track.contested)) == (1, number + 1, True)
    assert track.position().flags & CONTESTED
    assert (track.applied, track.lost, track.gaps) == (40, 0, 0)
    another = Track()
    another.restore(track.position())  # as another worker does
    assert offer(another, younger[0]) == REFUSE
    for frame in elder[20:60]:  # the younger has given up
        assert offer(track, frame) == APPLY
    assert not track.position().flags & CONTESTED


def test_the_younger_sender_goes_on_when_the_elder_is_gone() -> None:
    track = Track()
    for frame in (numbered(1, epoch=1), numbered(1, epoch=2), numbered(2, epoch=1)):
        offer(track, frame)
    assert track.contested
    verdicts = [offer(track, numbered(n, epoch=2)) for n in range(2, 60)]
    assert set(verdicts) == {REFUSE}
    assert not track.contested  # its probe reads that, and sends again from its floor
    assert [offer(track, numbered(n, epoch=2)) for n in (1, 2)] == [DUPLICATE, APPLY]
    assert (track.epoch, track.contested, track.gaps) == (2, 0, 1)


def test_what_was_applied_of_the_younger_sender_stays_applied() -> None:
    """Its ring no longer holds what was applied before the contest: that is not lost, nor of unknown fate."""
    track = Track()
    for frame in (numbered(1, epoch=1), *(numbered(n, epoch=2) for n in (1, 2)), numbered(2, epoch=1)):
        offer(track, frame)
    for number in range(3, 60):
        offer(track, numbered(number, epoch=2))
    assert offer(track, numbered(20, floor=20, epoch=2)) == APPLY
    assert (track.before, track.applied, track.lost, track.made) == (0, 6, 34, 40)


def test_a_name_that_is_handed_over_in_order_is_not_contested() -> None:
    track = Track()
    offer(track, numbered(1, epoch=1))
    offer(track, numbered(1, epoch=2))
    offer(track, numbered(2, epoch=2, kind=KIND_END))
    assert offer(track, numbered(2, floor=2, epoch=1)) == APPLY
    assert (track.epoch, track.contested) == (1, 0)


def test_no_sample_of_a_contested_name_is_valid() -> None:
    frame = numbered(1)._replace(values=bytes(8), ids=bytes(8))
    assert contested(frame).codes == bytes([codes.CONTESTED] * 2)
    marked = contested(frame._replace(codes=bytes([codes.RANGE, codes.OUTLIER_FLAG])))
    assert marked.codes == bytes([codes.RANGE, codes.CONTESTED])
    assert contested(frame)._replace(codes=b"") == frame


def test_another_frame_under_the_newest_number_tells_of_a_clone() -> None:
    track = Track()
    for sequence in (1, 2):
        offer(track, numbered(sequence))
    again = numbered(2)
    assert (offer(track, again._replace(floor=2)), track.contested) == (DUPLICATE, 0)  # sent again
    assert offer(track, again._replace(wall=2.001)) == DUPLICATE
    assert track.flags & CONTESTED
    for sequence in range(3, 3 + 30):
        assert track.flags & CONTESTED
        offer(track, numbered(sequence))
    assert not track.flags & CONTESTED
    assert offer(track, numbered(32, kind=KIND_TABLE)) == DUPLICATE  # a position has no time of tables
    assert not track.flags & CONTESTED
