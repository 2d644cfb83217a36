"""What a writer does for every frame, in C, equals its definition in Python: state, ring and what is sent."""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.link.resp import Address, ReplyError
from acquisition.outbox import in_flight, writer
from acquisition.outbox.in_flight import FRAME, InFlight
from acquisition.outbox.per_frame import PER_FRAME
from acquisition.outbox.ring import FileRing, MemoryRing
from acquisition.outbox.shedding import NORMAL, Shedding
from acquisition.outbox.store import Outbox
from acquisition.outbox.window import SendWindow
from acquisition.outbox.writer import Writer
from acquisition.wire import frame
from acquisition.wire.frame import Samples
from acquisition.wire.position import Position
from tests.support.commands import commands

pytestmark = pytest.mark.skipif(PER_FRAME is None, reason="the native step could not be compiled")

CAPACITY = 200_000
SECONDS = 30.0
HOST = 0xFEDC_BA98_7654_3210
SETS = (7, 0xFFFFFFFF)
_WINDOW = [name for name in SendWindow.__slots__ if name not in ("counts", "stall", "_unsettled")]


def samples(resource_set: int, rows: int, metrics: int, coded: bool, tick: int) -> Samples:
    cells = rows * metrics
    return Samples(
        resource_set, 0xDEADBEEF, rows, metrics, 0.1, -tick, 1.7e9 + tick, tick + 0.25,
        struct.pack(f"<{rows}Q", *range(rows)),
        struct.pack(f"<{cells}f", *[tick + 0.5 * cell for cell in range(cells)]),
        bytes(cell % 7 for cell in range(cells)) if coded else b"",
    )  # fmt: skip


class Host:
    """A writer whose frames go nowhere; with ``native`` what is compiled does what it can."""

    def __init__(self, native: bool, ring: Path | None, capacity: int = CAPACITY) -> None:
        self.native = native
        self.now = 1000.0
        self.outbox = Outbox(str(ring) if ring else None, capacity, SECONDS, lambda: self.now)
        self.writer = Writer(HOST, "alpha", [Address("127.0.0.1", 1)], None, self.outbox)
        self.in_flight: InFlight = self.writer._in_flight
        self.in_flight.begin("3.1")
        self.sent: list[list[bytes]] = []
        for number, resource_set in enumerate(SETS):
            self.outbox.window(resource_set).restart(1000 + number)

    def do(self, step: tuple[str, Any]) -> object:
        """One step, with or without what is compiled."""
        kept = writer.PER_FRAME, in_flight.PER_FRAME
        writer.PER_FRAME = in_flight.PER_FRAME = PER_FRAME if self.native else None  # type: ignore[attr-defined]
        try:
            return getattr(self, step[0])(step[1])
        finally:
            writer.PER_FRAME, in_flight.PER_FRAME = kept  # type: ignore[attr-defined]

    def offer(self, offered: Samples) -> int:
        return self.writer.offer(offered)

    def wait(self, seconds: float) -> None:
        self.now += seconds

    def take(self, _: object) -> None:
        parts: list[bytes] = []
        self.in_flight.take(parts, self.now)
        self.sent += commands(parts)

    def acknowledge(self, count: int) -> None:
        plain = takewhile(lambda token: token[0] is not None or token[1] == FRAME, self.in_flight.expected)
        known = min(count, len(list(plain)))
        assert self.in_flight.confirm(b"%d-0" % number for number in range(known)) is None

    def answer(self, replies: list[Any]) -> list[tuple[int, Any] | None]:
        """What the shard may answer: errors, too much, things that are no ids."""
        rest, found = iter(replies), []
        while (answer := self.in_flight.confirm(rest)) is not None:
            found.append(answer)
        return [
            *found,
            self.in_flight._refused and (self.in_flight._refused[0].resource_set, self.in_flight._refused[1]),
        ]

    def ask(self, kinds: list[int]) -> None:
        self.in_flight.expect([(None, kind, 0, 0) for kind in kinds])

    def apply(self, share: float) -> None:
        for window in self.outbox.windows.values():
            window.observe(Position(window.epoch, int(share * (window.next - 1)), 0, 0.0, 1.0, 0), b"0-0")

    def go_back(self, number: int) -> None:
        window = self.outbox.windows[SETS[number]]
        window.go_back(max(1, window.next - 3))
        self.in_flight.go_back([window])

    def restrain(self, state: Shedding) -> None:
        self.writer._overload.state = state
        self.writer._overload.newest = self.now - state.window

    def forget(self, number: int) -> None:
        self.outbox.forget(self.outbox.windows[SETS[number]])

    def state(self) -> dict[str, Any]:
        """Everything that there is."""
        box, index = self.outbox, self.outbox._index
        windows = {
            number: [getattr(window, name) for name in _WINDOW] + [window.status(), [*window._unsettled._frames]]
            for number, window in box.windows.items()
        }
        entries = [
            (entry.window and entry.window.resource_set, entry[1:])
            for entry in map(box.entry, range(box.first, box.end))
        ]
        ring: Any = box._ring._data if isinstance(box._ring, MemoryRing) else None
        return {
            "windows": windows,
            "entries": entries,
            "oldest": (index.oldest_at, index.oldest_place, index.first, index.end, index._mask),
            "box": (box.bytes, box.limit, box._head, box._serial, box._memory, box.faults),
            "recent": (box._recent._frames, box._recent._bytes),
            "frames": [box._ring.read(entry[1][3], entry[1][4]) for entry in entries if entry[1][3] >= 0],
            "ring": ring,
            "flight": (self.in_flight._index, self.in_flight.bytes),
            "expected": [(token[0] and token[0].resource_set, token[1:]) for token in self.in_flight.expected],
            "sent": self.sent,
        }


@contextmanager
def both(in_file: bool, capacity: int = CAPACITY) -> Iterator[tuple[Host, Host]]:
    """The same host twice: what is compiled, and its definition. The salt of both rings is the same."""
    with tempfile.TemporaryDirectory() as name:
        rings = [Path(name) / kind if in_file else None for kind in ("native", "python")]
        hosts = Host(True, rings[0], capacity), Host(False, rings[1], capacity)
        for host in hosts:
            if isinstance(host.outbox._ring, FileRing):
                host.outbox._ring._salt = 0x89ABCDEF
        try:
            yield hosts
            if in_file:
                area = slice(4096, None)
                assert Path(str(rings[0])).read_bytes()[area] == Path(str(rings[1])).read_bytes()[area]
        finally:
            for host in hosts:
                host.writer.close()


OFFERS = st.builds(
    samples,
    st.sampled_from((*SETS[:1], *SETS)),
    st.sampled_from((0, 1, 3, 100, 1000)),
    st.sampled_from((1, 2, 15)),
    st.booleans(),
    st.integers(0, 1 << 40),
)
STEPS = st.one_of(
    st.tuples(st.just("offer"), OFFERS),
    st.tuples(st.just("offer"), OFFERS),
    st.tuples(st.just("take"), st.none()),
    st.tuples(st.just("take"), st.none()),
    st.tuples(st.just("wait"), st.floats(0.0, SECONDS)),
    st.tuples(st.just("acknowledge"), st.integers(0, 5)),
    st.tuples(st.just("ask"), st.lists(st.sampled_from((FRAME, 1, 2, 3, 4)), max_size=3)),
    st.tuples(
        st.just("answer"), st.lists(st.sampled_from((b"7-0", b"", ReplyError("OOM x"), None, 3, [b"1-0"])), max_size=6)
    ),
    st.tuples(st.just("apply"), st.floats(0.0, 1.0)),
    st.tuples(st.just("go_back"), st.integers(0, 1)),
    st.tuples(st.just("restrain"), st.sampled_from((NORMAL, Shedding(share=0.5), Shedding(window=5.0)))),
    st.tuples(st.just("forget"), st.integers(0, 1)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(STEPS, max_size=60), st.booleans())
@example([("offer", samples(7, rows, 15, False, 0)) for rows in (0, 1000, 0)] + [("take", None)], False)
def test_every_step_equals_the_definition(steps: list[tuple[str, Any]], in_file: bool) -> None:
    with both(in_file) as (native, defined):
        for step in steps:
            assert native.do(step) == defined.do(step), step
            assert native.state() == defined.state(), step


@pytest.mark.parametrize("in_file", [False, True])
@pytest.mark.parametrize("capacity", [30_000, CAPACITY])
def test_a_ring_that_goes_round_equals_the_definition(in_file: bool, capacity: int) -> None:
    """Frames of two sizes and two sets, some late, some applied, for several laps."""
    with both(in_file, capacity) as (native, defined):
        for tick in range(400):
            steps: list[tuple[str, Any]] = [
                ("offer", samples(SETS[tick % 5 == 0], 100 + tick % 7, 15, tick % 3 == 0, tick))
            ]
            steps += [("take", None)] if tick % 4 else []
            steps += [("acknowledge", 9), ("apply", 0.9)] if tick % 8 == 0 else []
            steps += [("wait", 20.0 if tick % 97 == 0 else 0.5)]
            for step in steps:
                assert native.do(step) == defined.do(step)
                assert native.state() == defined.state()
        assert native.outbox.windows[SETS[0]].floor > 100


def test_it_is_what_does_the_work() -> None:
    """A plain frame is numbered, kept and made a command without the definition."""
    with both(False) as (native, _):
        assert PER_FRAME is not None
        window = native.outbox.windows[SETS[0]]
        assert PER_FRAME.offer(native.outbox, window, HOST, samples(SETS[0], 2, 2, True, 5)) == 1
        parts: list[bytes] = []
        assert PER_FRAME.take(native.in_flight, parts, native.now, 2.0)
        (command,) = commands(parts)
        assert command[:4] == [b"XADD", b"raw:{3.1}", b"*", b"f"]
        found = frame.decode(command[4])
        assert (found.sequence, found.tick, found.codes) == (1, -5, bytes(range(4)))
        assert found.ids == struct.pack("<2Q", 0, 1)


@pytest.mark.parametrize(
    "changes",
    [
        {"entities": 3},
        {"values": bytes(4)},
        {"codes": bytes(3)},
        {"entities": -1},
        {"entities": 1 << 32},
        {"metrics": 1 << 16},
        {"schema": 1 << 32},
        {"schema": -1},
        {"tick": 1 << 63},
        {"interval": 1e39},
        {"interval": "1"},
        {"ids": bytearray(16)},
        {"wall": None},
        {"values": memoryview(bytes(16))},
    ],
)
def test_what_does_not_fit_is_refused_as_by_the_definition(changes: dict[str, Any]) -> None:
    with both(False) as (native, defined):
        offered = samples(SETS[0], 2, 2, False, 1)._replace(**changes)
        answers = []
        for host in (native, defined):
            try:
                answers.append(repr(host.do(("offer", offered))))
            except (FrameError, struct.error, OverflowError, TypeError) as error:
                answers.append(repr(error))
        assert answers[0] == answers[1]
        assert native.state() == defined.state()


def test_a_frame_larger_than_the_ring_is_left_to_the_definition() -> None:
    with both(False, 5000) as (native, defined):
        for step in (("offer", samples(7, 10, 2, False, 1)), ("offer", samples(7, 100, 15, False, 2)), ("take", None)):
            assert native.do(step) == defined.do(step)
            assert native.state() == defined.state()
        assert native.outbox.faults == {"ring_large": 1}


def test_a_disk_that_takes_nothing_is_left_to_the_definition() -> None:
    with both(True) as (native, defined):
        for host in (native, defined):
            host.outbox._ring.close()  # every write fails from here on
            for tick in range(3):
                assert host.do(("offer", samples(7, 10, 2, False, tick))) == tick + 1
        assert native.outbox.faults == defined.outbox.faults
        assert native.outbox.faults["ring_write"] > 0
        assert native.outbox._memory == defined.outbox._memory
