"""A writer's frames while it sheds, judged by the filter's rule: every gap says so, and the counts agree."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.window import SendWindow
from acquisition.outbox.in_flight import InFlight
from acquisition.outbox.overload import Overload
from acquisition.outbox.shedding import NORMAL, Shedding
from acquisition.wire import frame
from acquisition.wire.frame import HINT_SHEDS, KIND_SAMPLES, Frame
from acquisition.wire.position import SHEDS, Position
from filters.worker.states.sequence import APPLY, REFUSE, Track
from tests.support.commands import commands

SAMPLES = 3


class Host:
    """A host of one resource set, without a connection; ``now`` is its clock."""

    def __init__(self, ring_seconds: float = 600.0) -> None:
        self.now = 100.0
        self.outbox = Outbox(None, seconds=ring_seconds, clock=lambda: self.now)
        self.overload = Overload(self.outbox)
        self.in_flight = InFlight(self.outbox, self.overload, old=float("inf"))  # nothing waits for its turn
        self.in_flight.begin("0.0")
        self.window: SendWindow = self.outbox.window(1)

    def make(self) -> None:
        self.now += 1.0
        at = self.outbox.make_room(200)
        window = self.window
        data = frame.encode(
            Frame(
                KIND_SAMPLES, 1, 7, 1, 1, SAMPLES, 1.0, window.epoch, window.last + 1, window.floor, window.made,
                int(self.now), self.now, self.now, bytes(8), bytes(4 * SAMPLES),
            )
        )  # fmt: skip
        self.outbox.append(window, SAMPLES, data, at)

    def send(self) -> list[Frame]:
        parts: list[bytes] = []
        self.in_flight.take(parts, self.now)
        sent = [frame.decode(command[-1]) for command in commands(parts)]
        assert self.in_flight.confirm(b"%d-0" % frame.sequence for frame in sent) is None
        assert not self.in_flight.expected
        return sent

    def go_back(self, applied: int) -> None:
        self.window.synchronize(Position(self.window.epoch, applied, 0, 0.0, 1.0, 0))
        self.in_flight.go_back([self.window])


def apply(track: Track, frames: list[Frame]) -> None:
    for each in frames:
        verdict = track.judge(each)
        assert verdict != REFUSE
        if verdict == APPLY:
            track.apply(each)


def test_a_gap_of_shed_frames_is_lost_and_counted_and_said():
    host, track = Host(), Track()
    host.make()
    apply(track, host.send())
    host.overload.state = Shedding(share=0.25)
    for _ in range(10):
        host.make()
        apply(track, host.send())
    assert (host.window.counts.shed_frames, host.window.counts.shed_samples) == (8, 8 * SAMPLES)
    assert track.position().lost == 5 * SAMPLES  # what follows the last one tells of the others
    assert track.flags & SHEDS
    host.overload.state = NORMAL
    host.make()
    (last,) = host.send()
    assert (last.hints & HINT_SHEDS, last.floor) == (0, last.sequence)
    apply(track, [last])
    assert not track.flags & SHEDS
    assert (track.lost, track.lost_frames) == (host.window.counts.shed_samples, host.window.counts.shed_frames)
    assert track.before + track.applied + track.lost == host.window.made == 12 * SAMPLES


def test_the_newest_first_when_shedding_begins():
    host = Host()
    for _ in range(20):
        host.make()
    host.overload.state = Shedding(share=0.5)
    sent = host.send()
    assert [each.sequence for each in sent] == [16, 18, 20]  # the others were shed, and what is older than five seconds


def test_sent_frames_are_resent_after_fault_while_shedding():
    host, track = Host(), Track()
    for _ in range(4):
        host.make()
    apply(track, host.send())
    host.overload.state = Shedding(share=0.05)
    for _ in range(4):
        host.make()
    assert host.send() == []
    host.go_back(0)
    again = host.send()
    fresh = Track()  # a shard that came back empty
    apply(fresh, again)
    assert (fresh.sequence, fresh.applied, fresh.lost) == (4, 4 * SAMPLES, 0)


def test_tables_are_never_shed():
    host = Host()
    host.make()
    host.send()
    host.overload.state = Shedding(share=0.05)
    window = host.window
    at = host.outbox.make_room(200)
    table = Frame(frame.KIND_TABLE, 1, 7, 1, 0, 0, 1.0, window.epoch, 2, 1, SAMPLES, 1, 1.0, 1.0, payload=b"{}")
    host.outbox.append(window, 0, frame.encode(table), at)
    assert [each.kind for each in host.send()] == [frame.KIND_TABLE]


def test_while_the_filter_is_crowded_frames_beyond_the_window_wait():
    host = Host()
    for _ in range(5):
        host.make()
    host.overload.newest = host.now - 2.5
    assert [each.sequence for each in host.send()] == [1, 2]
    host.overload.newest = float("inf")
    assert [each.sequence for each in host.send()] == [3, 4, 5]
    host.overload.state = Shedding(hold=True)
    host.make()
    assert host.in_flight.is_waiting
    assert not host.in_flight.may_go


STEPS = st.lists(
    st.tuples(st.sampled_from([1.0, 1.0, 0.5, 0.2, 0.05]), st.integers(0, 3), st.sampled_from([0, 0, 0, 1, 5])),
    min_size=1,
    max_size=60,
)


@given(STEPS, st.sampled_from([600.0, 8.0]))
@settings(deadline=None, max_examples=100)
def test_the_books_balance_whatever_is_shed_dropped_or_sent_again(steps, ring_seconds):
    """Shares change, the tail of what was sent gets lost with its connection, the filter forgets, the ring is short."""
    host, track = Host(ring_seconds), Track()
    for share, cut, forgets in steps:
        host.overload.state = NORMAL if share == 1.0 else Shedding(share=share)
        host.make()
        sent = host.send()
        arrived = sent[: len(sent) - cut] if cut else sent
        apply(track, arrived)
        if forgets == 5:
            track = Track()
        if cut or forgets:
            host.go_back(track.sequence if track.epoch else 0)
    host.overload.state = NORMAL
    host.go_back(track.sequence if track.epoch else 0)
    for _ in range(2):
        host.make()
        apply(track, host.send())
    host.make()
    apply(track, host.send())
    assert track.sequence == host.window.last
    assert track.before + track.applied + track.lost == host.window.made == track.made
