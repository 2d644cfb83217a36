"""Frames that simply follow each other: the native judgement says what Python's says, and a run of frames what single
ones do."""

from __future__ import annotations

import struct
import zlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.errors import FrameError
from acquisition.wire import frame as wire
from acquisition.wire import position
from acquisition.wire.frame import Frame
from acquisition.wire.position import Position
from acquisition.wire.records import smoothed
from acquisition.wire.records.recent import SEED_EVERY
from filters.worker.partitions.batch import Accepted
from filters.worker.states.sequence import APPLY, Track
from filters.worker.states.state import shape_of
from filters.worker.step import native
from tests.support.inputs_bench import Bench
from tests.support.untested import require_native

require_native(native.STEP)

COUNTS = st.integers(0, wire.MOST_COUNTED - 1)
EDGES = st.sampled_from([0, 1, 2, 5, wire.MOST_COUNTED - 1, wire.MOST_COUNTED, (1 << 64) - 1])
TIMES = st.floats(allow_nan=True, allow_infinity=True)


def shape_in(data: bytes) -> int:
    if len(data) < wire.HEADER_SIZE:
        return 0
    names = [name for name, _ in wire.HEADER_FIELDS]
    fields = dict(zip(names, wire.HEADER.unpack_from(data), strict=True))
    return shape_of(fields["entities"], fields["metrics"])


def next_frame(data: bytes, track: Track) -> int:
    """The samples of a frame that follows in a track, as the native step says of a read of it alone; 0: it does not."""
    assert native.STEP is not None
    key = struct.unpack_from("<16xQI", data) if len(data) >= 28 else (0, 0)
    state, accepted = SimpleNamespace(member=b"member", track=track, shape=shape_in(data)), []
    entries = [[b"1-0", [b"f", data]]]
    at, size = native.STEP.take_followers(entries, 0, 1, None, {key: state}, {}, {}, 0.0, Accepted, accepted)
    assert (at, size) == ((1, len(data)) if accepted else (0, 0))
    return accepted[0].samples if accepted else 0


def made(entities: int = 2, metrics: int = 3, codes: bool = True, **changes: Any) -> Frame:
    cells = entities * metrics
    plain = Frame(
        wire.KIND_SAMPLES, 1, 2, 3, entities, metrics, 1.0, 7, 5, 1, 60, 9, 9.5, 8.5,
        bytes(8 * entities), bytes(4 * cells), bytes(cells) if codes else b"",
    )  # fmt: skip
    return plain._replace(**changes)


def standing(epoch: int = 7, sequence: int = 4) -> Track:
    track = Track()
    track.restore(Position(epoch, sequence, 8, 8.5, 2.0, made=60, applied=50, before=10, frames=4))
    return track


# ---------------------------------------------------------------- the checksum


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 200), st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_checksum_is_zlibs(entities: int, metrics: int, random: Any) -> None:
    cells = entities * metrics
    data = wire.encode(
        made(entities, metrics, ids=random.randbytes(8 * entities), values=random.randbytes(4 * cells),
             codes=random.randbytes(cells))
    )  # fmt: skip
    assert next_frame(data, standing()) == cells
    spoilt = bytearray(data)
    spoilt[random.randrange(8, len(data))] ^= 1 << random.randrange(8)
    assert next_frame(bytes(spoilt), standing()) == 0


# ---------------------------------------------------------------- judging

HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.integers(0, 5), "epoch": st.sampled_from([7, 8]), "sequence": st.integers(0, 7) | EDGES,
        "floor": st.integers(0, 7) | EDGES, "made": COUNTS | EDGES, "interval": st.floats(width=32), "wall": TIMES,
        "monotonic": TIMES, "hints": st.integers(0, 3), "tick": st.integers(-5, 5), "entities": st.integers(0, 3),
        "metrics": st.integers(0, 4), "magic": st.sampled_from([b"SPLS", b"SPLT"]), "version": st.integers(0, 2),
        "flags": st.integers(0, 3),
    },
)  # fmt: skip


def forged(changes: dict[str, Any]) -> bytes:
    """A frame whose header says these things, with a checksum that fits it."""
    data = bytearray(wire.encode(made()))
    names = [name for name, _ in wire.HEADER_FIELDS]
    fields = dict(zip(names, wire.HEADER.unpack_from(data), strict=True)) | changes
    wire.HEADER.pack_into(data, 0, *(fields[name] for name in names))
    struct.pack_into("<I", data, 4, zlib.crc32(data[8:]))
    return bytes(data)


@settings(max_examples=600, deadline=None)
@given(HEADERS, st.integers(0, 4), st.booleans())
def test_what_it_takes_python_applies_and_counts_alike(changes: dict[str, Any], stands: int, torn: bool) -> None:
    data = forged(changes)[: -1 if torn else None]
    ours, theirs = standing(sequence=stands), standing(sequence=stands)
    samples = next_frame(data, ours)
    if not samples:
        assert bytes(ours) == bytes(theirs)
        return
    frame = wire.decode(data)
    assert frame.kind == wire.KIND_SAMPLES
    assert samples == frame.samples
    assert theirs.judge(frame) == APPLY
    theirs.apply(frame)
    assert bytes(ours) == bytes(theirs)


def test_frames_of_two_senders_are_left_to_python() -> None:
    track = Track()
    track.restore(Position(7, 4, 8, 8.5, 2.0, position.CONTESTED))
    assert next_frame(wire.encode(made()), track) == 0


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.booleans(), st.integers(0, 1), st.integers(-3, 1 << 40))
def test_it_takes_every_sound_frame_that_is_the_next(
    entities: int, metrics: int, codes: bool, hints: int, tick: int
) -> None:
    frame = made(entities, metrics, codes, hints=hints, tick=tick)
    track = standing()
    assert next_frame(wire.encode(frame), track) == frame.samples
    assert (track.sequence, track.tick, track.frames, track.applied) == (5, tick, 5, 50 + frame.samples)
    assert track.made == 60 + frame.samples


@pytest.mark.parametrize("data", [b"", b"SPLS", bytes(95), bytes(96), wire.encode(made())[:-1]])
def test_what_is_no_frame_is_left_alone(data: bytes) -> None:
    track = standing()
    assert next_frame(data, track) == 0
    with pytest.raises(FrameError):
        wire.decode(data)


def test_a_track_is_its_position_record() -> None:
    at = Position(1, 2, -3, 4.5, 0.5, position.ENDED, *range(6, 15), -15, 16)
    track = Track()
    assert track.position() == Position(0, 0, 0, 0.0, 0.0)
    track.restore(at)
    assert bytes(track) == position.encode(at)
    assert track.position() == at


# ---------------------------------------------------------------- runs

FRAME = st.tuples(
    st.sampled_from([1.0, 1.0, 1.0, 1.0, 1.2, 2.0, 7.0, 0.0, -3.0]),  # seconds since the frame before
    st.sampled_from([1, 1, 1, 1, 2]),  # which entities
    st.sampled_from([1, 1, 1, 1, 1, 2]),  # the epoch
    st.booleans(),  # whether it has codes
)


@settings(max_examples=150, deadline=None)
@given(st.lists(FRAME, min_size=1, max_size=60), st.integers(1, 12), st.booleans(), st.integers(0, 1 << 32))
@pytest.mark.filterwarnings("ignore")
def test_a_run_of_frames_is_as_single_ones(frames: list, together: int, with_inputs: bool, seed: int) -> None:
    """Of one state, with whatever lies between frames that simply follow; commits are compared as they are made."""
    rng = np.random.default_rng(seed)
    thresholds = None if with_inputs else {"vms.nobody": 0.5}
    benches = [Bench(thresholds=thresholds, native=step) for step in (native.STEP, native.STEP, None)]
    at, group = 100.0, []
    for number, (seconds, who, epoch, coded) in enumerate(frames):
        at += seconds
        values = rng.normal(0.5, 0.3, (4, 4)).astype("<f4")
        marks = np.where(rng.random((4, 4)) < 0.2, 3, 0).astype(np.uint8) if coded else None
        group.append((at, [1, 2, 3, 3 + who], values, marks, epoch))
        if len(group) == together or number == len(frames) - 1:
            commits = [feed(each, group, single) for each, single in zip(benches, (False, True, True), strict=True)]
            assert commits[0] == commits[1]
            assert commits[0].keys() == commits[2].keys()
            group = []
    states = [each.state(1) for each in benches]
    for each in states:
        each.settle()
    ours, singly, numpys = states
    assert (ours.exceptions, ours.monotonic) == (singly.exceptions, singly.monotonic)
    assert ours.exceptions == numpys.exceptions
    np.testing.assert_array_equal(ours.planes, singly.planes)
    np.testing.assert_allclose(ours.planes, numpys.planes, rtol=1e-5, atol=1e-5)
    assert ours.track.invalid == singly.track.invalid == numpys.track.invalid
    if with_inputs:
        assert ours.inputs is not None
        assert singly.inputs is not None
        assert ours.inputs.memory == singly.inputs.memory
        assert (ours.inputs.step, ours.inputs.monotonic) == (singly.inputs.step, singly.inputs.monotonic)


def feed(bench: Bench, group: list[tuple], single: bool) -> dict[bytes, list[bytes]]:
    """What the commit of these frames says. ``single``: each frame is smoothed by itself, and its state does not go on
    alone."""
    frames = [bench.frame(1, at, ids, values, marks, epoch=epoch) for at, ids, values, marks, epoch in group]
    for each in [[frame] for frame in frames] if single else [frames]:
        bench.smoother.smooth(each)
        if single:
            bench.state(1).settle()
    return bench.committed()


def test_records_that_a_later_frame_replaces_are_not_made() -> None:
    assert native.STEP is not None
    bench = Bench(native=native.STEP)
    values = np.full((2, 4), 0.5, "<f4")
    bench.feed(bench.frame(1, 1.0, [1, 2], values, None))
    bench.committed()
    assert native.STEP.run_all([bench.frame(1, float(at), [1, 2], values, None) for at in range(2, 12)], 1.0, 0.0) == []
    found = bench.committed()
    (rows,) = [said for key, said in found.items() if key.startswith(b"recent")]
    ticks = [smoothed.HEADER.unpack(said[0][:88] + bytes(8))[14] for said in found.values() if said is not rows]
    assert sorted(ticks) == [9, 10, 11]
    assert len(rows) == 10


def test_seeds_of_averages_are_written_without_leaving_the_run() -> None:
    ours, numpys = Bench(native=native.STEP), Bench(native=None)
    frames = [(float(at), [1, 2, 3], np.full((3, 4), at % 7 / 7, "<f4"), None, 1) for at in range(1, 3 * SEED_EVERY)]
    for bench in (ours, numpys):
        feed(bench, frames[:1], single=False)
    stepper = ours.state(1).stepper
    found, expected = (feed(bench, frames[1:], single=False) for bench in (ours, numpys))
    assert ours.state(1).stepper is stepper
    (key,) = [key for key in found if key.startswith(b"recent")]
    assert len(found[key]) == len(frames) - 1 + 2
    assert found[key] == expected[key]


@pytest.mark.parametrize("wrong", [b"short", 1, None, ()])
def test_what_is_no_accepted_frame_is_refused(wrong: Any) -> None:
    assert native.STEP is not None
    bench = Bench(native=native.STEP)
    values = np.full((1, 4), 0.5, "<f4")
    bench.feed(bench.frame(1, 1.0, [1], values, None))
    stepper = bench.state(1).stepper
    assert stepper is not None
    before = stepper.state()
    sound = bench.frame(1, 2.0, [1], values, None)
    for frames in ([sound, sound._replace(data=wrong)], [sound, wrong], wrong):
        with pytest.raises((ValueError, TypeError)):
            native.STEP.run_all(frames, 1.0, 0.0)
        assert stepper.state() == before


def given_stepper(**changes: Any) -> list[Any]:
    """Arguments of a stepper over one entity of two metrics, with some things other than they should be."""
    head = bytearray(smoothed.HEADER_SIZE)
    struct.pack_into("<HI", head, 6, 2, 1)
    plain: dict[str, Any] = {
        "planes": np.zeros((1, 2), np.float32), "numbers": b"\x02", "exceptions": b"", "taus": np.array([5.0]),
        "head": bytes(head), "ids": bytes(8), "raw": 1, "prefixes": (b"SET",), "tail": b"", "track": Track(),
        "monotonic": 1.0, "inputs": None, "seed_every": 32, "seeds": 5, "lives_until": 0.0,
    }  # fmt: skip
    return list((plain | changes).values())


@pytest.mark.parametrize(
    "wrong",
    [
        {"planes": np.zeros((1, 3), np.float32)}, {"numbers": b"\x09"}, {"exceptions": bytes(11)}, {"head": bytes(96)},
        {"exceptions": struct.pack("<IIf", 2, 0, 1.0)}, {"taus": np.ones(3)}, {"head": bytes(5)}, {"ids": bytes(7)},
        {"raw": 9}, {"prefixes": ()}, {"track": bytearray(3)}, {"track": bytes(136)}, {"seed_every": 0}, {"seeds": 0},
        {"inputs": (bytearray(3), b"x", 1.0, 1.0, 1, 1, 0, False, b"", 1, 1)}, {"prefixes": None}, {"exceptions": 5},
        {"inputs": (1, 2)}, {"inputs": 3},
    ],
)  # fmt: skip
def test_a_stepper_of_what_does_not_fit_is_refused(wrong: dict[str, Any]) -> None:
    assert native.STEP is not None
    native.STEP.make_stepper(*given_stepper())
    with pytest.raises((ValueError, TypeError, BufferError)):
        native.STEP.make_stepper(*given_stepper(**wrong))


def test_a_frame_that_nobody_has_decoded_decodes_when_asked() -> None:
    frame = made()
    bench = Bench(native=native.STEP)
    assert Accepted(bench.batch, bench.state(1), frame.samples, wire.encode(frame)).decoded() == frame
