"""The go-back rule by itself."""

from __future__ import annotations

import pytest

from acquisition.outbox.frames.window import SendWindow
from acquisition.wire.position import WANT_TABLE, Position
from acquisition.wire.stream_id import is_before

EPOCH = 77


def at(sequence: int, flags: int = 0, epoch: int = EPOCH) -> Position:
    return Position(epoch, sequence, 0, 0.0, 1.0, flags)


def sent(last: int, acked: int | None = None) -> SendWindow:
    """A window that has sent ``last`` frames; the shard acknowledged ``acked`` of them as ``<n>-0``."""
    window = SendWindow(1, EPOCH)
    window.synchronize(None)
    for sequence in range(1, last + 1):
        window.number(0)
        window.send(sequence)
    window.note_table(1)
    newest = last if acked is None else acked
    window.acknowledge(newest, 0, b"%d-0" % newest)
    return window


def hold_from(window: SendWindow, floor: int) -> None:
    """The ring has dropped what is before ``floor``."""
    for sequence in range(window.floor, floor):
        window.drop(sequence, 0, 0, False)


@pytest.mark.parametrize(
    ("left", "right", "before"),
    [
        (b"1-1", b"1-2", True),
        (b"9-0", b"10-0", True),
        (b"5-5", b"5-5", False),
        (b"", b"0-0", True),
        (b"x", b"1-1", True),
    ],
)
def test_stream_ids_are_compared_as_numbers(left: bytes, right: bytes, before: bool) -> None:
    assert is_before(left, right) is before


def test_goes_on_behind_the_applied_position_after_a_new_connection() -> None:
    window = sent(10)
    window.synchronize(at(6))
    assert (window.next, window.applied, window.counts.go_backs) == (7, 6, 1)


def test_absent_or_foreign_position_goes_back_to_floor() -> None:
    for position in (None, at(9, epoch=5)):
        window = sent(10)
        hold_from(window, 4)
        window.synchronize(position)
        assert window.next == 4
        assert window.wants_table  # the table was frame 1, which is gone


def test_table_that_will_be_sent_again_anyway_is_not_wanted() -> None:
    window = sent(10)
    window.synchronize(None)
    assert (window.next, window.wants_table) == (1, False)


def test_applied_position_below_the_floor_goes_to_the_floor() -> None:
    window = sent(10)
    hold_from(window, 8)
    window.synchronize(at(3))
    assert window.next == 8


def test_absence_is_no_reason_while_the_filter_has_read_nothing() -> None:
    window = sent(10)
    for _ in range(50):
        assert not window.observe(None, b"")
        assert not window.observe(None, b"9-9")
    assert window.next == 11


def test_position_that_vanished_or_went_back_goes_back_at_once() -> None:
    window = sent(10)
    assert not window.observe(at(8), b"8-0")
    assert window.observe(at(5), b"8-0")
    assert window.next == 6
    window = sent(10)
    window.observe(at(8), b"8-0")
    assert window.observe(None, b"")
    assert window.next == 1


def test_stall_is_found_if_cursor_passed_unapplied_frame() -> None:
    window = sent(10)
    assert not window.observe(at(4), b"9-0")  # the filter has not read so far yet
    assert window.observe(at(4), b"10-0")
    assert window.next == 5


def test_no_second_go_back_before_something_was_acknowledged_again() -> None:
    window = sent(10)
    assert window.observe(at(4), b"10-0")
    for _ in range(10):
        assert not window.observe(at(4), b"10-5")
    window.acknowledge(5, 0, b"11-0")
    assert not window.observe(at(4), b"10-9")


def test_stalls_without_progress_go_back_ever_more_rarely() -> None:
    window = sent(10)
    back = 0
    for reading in range(1, 201):
        back += window.observe(at(4), b"%d-0" % (100 * reading))
        window.acknowledge(10, 0, b"%d-0" % (100 * reading))  # sent again
    assert 5 <= back <= 12


def test_filter_that_lags_is_no_stall_however_long() -> None:
    window = sent(10)
    for applied in range(100):
        window.acknowledge(applied + 50, 0, b"%d-0" % (applied + 50))
        assert not window.observe(at(applied), b"%d-0" % applied)


def test_table_is_wanted_by_flag_unless_one_is_on_its_way() -> None:
    window = sent(10)
    window.observe(at(9, WANT_TABLE), b"9-0")
    assert window.wants_table
    window.note_table(window.number(0))
    window.observe(at(10, WANT_TABLE), b"10-0")
    assert not window.wants_table
    window.observe(at(11, WANT_TABLE), b"11-0")
    assert window.wants_table


def test_position_ahead_of_recovery_is_seen_after_new_numbers() -> None:
    window = SendWindow(1, EPOCH, 10, 20)
    for _ in range(3):  # offered since the start
        window.number(0)
    assert window.is_ahead(at(12))
    assert not window.is_ahead(at(10))
    assert not window.is_ahead(None)
    assert not window.is_ahead(at(12, epoch=3))
    window.synchronize(at(10))
    assert not window.is_ahead(at(13))
    assert window.is_ahead(at(14))


def test_another_s_frame_twice_in_a_row_means_a_clone() -> None:
    window = sent(10)
    assert [window.is_doubled(each) for each in (True, False, True, None, True)] == [False, False, False, False, True]
    window.restart(EPOCH + 1)
    assert not window.is_doubled(None)


def stall(window: SendWindow, reading: int) -> bool:
    """The frames from 5 on were sent again and acknowledged; the cursor has passed them, 4 stays applied."""
    for sequence in range(window.next, 11):
        window.send(sequence)
    window.acknowledge(5, 0, b"%d-0" % (100 * reading))
    window.acknowledge(10, 0, b"%d-9" % (100 * reading))
    return window.observe(at(4), b"%d-9" % (100 * reading))


def test_frame_resent_in_vain_is_doubted_before_next_resend() -> None:
    window = sent(10)
    readings = [(stall(window, reading), window.stall.in_doubt) for reading in range(1, 7)]
    assert readings == [(True, False), (True, False), *[(False, False)] * 2, (False, True), (False, True)]
    assert (window.stall.suspect, window.stall.suspect_id, window.counts.go_backs) == (5, b"600-0", 2)
    window.resend(5)
    assert (window.next, window.stall.in_doubt) == (5, False)


def test_progress_new_connections_and_lost_positions_end_the_doubt() -> None:
    def doubting() -> SendWindow:
        window = sent(10)
        for reading in range(1, 6):
            stall(window, reading)
        assert window.stall.in_doubt
        return window

    window = doubting()
    assert not window.observe(at(5), b"1-0")
    assert not window.stall.in_doubt
    for end in (lambda w: w.synchronize(at(4)), lambda w: w.observe(None, b""), lambda w: w.observe(at(2), b"")):
        window = doubting()
        end(window)
        assert not window.stall.in_doubt


def test_frame_other_than_the_resent_one_is_not_doubted() -> None:
    window = sent(10)
    for reading in range(1, 5):
        stall(window, reading)
    hold_from(window, 7)  # the ring has dropped it meanwhile
    assert stall(window, 5)
    assert (window.stall.in_doubt, window.next) == (False, 7)


def dropped(window: SendWindow) -> int:
    return window.counts.dropped_frames


def test_evicted_frames_are_dropped_only_if_not_applied() -> None:
    window = sent(10)
    window.observe(at(2), b"2-0")
    hold_from(window, 8)
    assert dropped(window) == 0  # all of it is in the stream
    window.observe(at(5), b"5-0")
    assert dropped(window) == 0
    window.observe(at(10), b"10-0")
    hold_from(window, 11)
    window.go_back(11)
    assert dropped(window) == 0


def test_evicted_frames_are_dropped_after_go_back() -> None:
    window = sent(10)
    window.observe(at(2), b"2-0")
    hold_from(window, 8)
    window.synchronize(at(5))  # a replica that had less has taken over
    assert (dropped(window), window.next) == (2, 8)
    for position in (None, at(9, epoch=5)):
        window = sent(10)
        hold_from(window, 8)
        window.synchronize(position)
        assert dropped(window) == 7


def test_what_the_shard_has_not_stored_is_dropped_at_once() -> None:
    window = sent(10, acked=4)
    hold_from(window, 8)
    assert dropped(window) == 3
    window = sent(10)
    window.go_back(3)  # what was acknowledged before says nothing of what the shard has now
    hold_from(window, 8)
    assert dropped(window) == 7


def test_what_no_reading_settles_is_dropped_in_the_end() -> None:
    window = sent(3000)
    hold_from(window, 2001)
    assert dropped(window) == 2000 - 1024
    window.restart(EPOCH + 1)
    assert dropped(window) == 2000
