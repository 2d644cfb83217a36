"""What the native step does for all frames of a read, and of a turn, Python does for each: both are held together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.link.resp import pack, word
from acquisition.wire import frame as wire
from acquisition.wire.frame import Frame
from filters.worker.partitions.partition import Partition, write_positions
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.state import State
from filters.worker.step import native
from tests.support.inputs_bench import METRICS, SCHEMA, VMS, Bench, names
from tests.support.untested import require_native

require_native(native.STEP)


# ---------------------------------------------------------------- reads


def encoded(host: int, epoch: int, sequence: int, coded: bool, kind: int) -> bytes:
    """A frame of two entities; ``kind`` as in acquisition.wire.frame."""
    values = np.full((2, len(METRICS)), 0.25, "<f4").tobytes()
    codes = bytes(2 * len(METRICS)) if coded else b""
    made = Frame(
        wire.KIND_SAMPLES, SCHEMA, host, VMS, 2, len(METRICS), 1.0, epoch, sequence, 1, 8 * (sequence - 1),
        sequence, 1e6 + sequence, 1e3 + sequence, np.arange(2, dtype="<u8").tobytes(), values, codes,
    )  # fmt: skip
    if kind != wire.KIND_SAMPLES:
        payload = names() if kind == wire.KIND_TABLE else b""
        made = made._replace(kind=kind, entities=0, metrics=0, ids=b"", values=b"", codes=b"", payload=payload)
    return wire.encode(made)


#: Hosts send what follows, mostly: each of these is (host, leap, epoch, whether with codes, kind).
SENT = st.tuples(
    st.integers(1, 3),
    st.sampled_from([1, 1, 1, 1, 1, 1, 0, 2, -1]),
    st.sampled_from([7, 7, 7, 7, 7, 8]),
    st.booleans(),
    st.sampled_from([wire.KIND_SAMPLES] * 6 + [wire.KIND_TABLE, wire.KIND_END, wire.KIND_TOMBSTONE]),
)
STRANGE = st.sampled_from([[b"g", b"x"], [b"f"], (b"f", b"x"), [], None, [b"f", b""], [b"f", bytes(200)], [b"f", 5]])


@settings(max_examples=200, deadline=None)
@given(st.lists(SENT | STRANGE, min_size=1, max_size=40), st.integers(1, 9), st.booleans())
def test_a_read_is_taken_as_python_takes_it(sent: list[Any], together: int, tuples: bool) -> None:
    both = [Partition(0, "0", 1, FilterSettings(), step) for step in (native.STEP, None)]
    stands: dict[tuple[int, int], int] = {}
    entries: list[Any] = []
    for number, each in enumerate(sent):
        fields: Any = each
        if isinstance(each, tuple) and len(each) == 5:
            host, leap, epoch, coded, kind = each
            stands[host, epoch] = sequence = max(1, stands.get((host, epoch), 0) + leap)
            fields = [b"f", encoded(host, epoch, sequence, coded, kind)]
        entry = (b"%d-0" % (number + 1), fields)
        entries.append(entry if tuples else list(entry))
    for first in range(0, len(entries), together):
        mine, theirs = (standing(partition, entries[first : first + together]) for partition in both)
        assert mine == theirs


def standing(partition: Partition, entries: list[Any]) -> list[Any]:
    """What a partition takes of entries, where it stands then, and what its commit says but for what is random."""
    with partition.batch(entries) as batch:
        taken = [(each.state.member, each.samples, each.data) for each in batch.accepted]
        pieces = partition.commit(batch).pieces
    return [
        taken,
        partition.stream.cursor,
        partition.rejections.count,
        partition.rejections.news(),
        {key: bytes(state.track) for key, state in partition.sets.states.items()},
        set(partition.sets.heard),
        vars(partition.stream)["_most_entries"],
        vars(partition.stream.retention.kept)["_bytes"],
        pieces[:-2],
    ]


def take(partition: Partition, number: int) -> None:
    with partition.batch([(b"%d-0" % number, [b"f", encoded(1, 7, number, False, wire.KIND_SAMPLES)])]) as batch:
        partition.commit(batch)


def test_when_a_host_was_heard_is_told() -> None:
    assert native.STEP is not None
    partition = Partition(0, "0", 1, FilterSettings(expire_seconds=50.0), native.STEP)
    for number in (1, 2):
        take(partition, number)
        heard = partition.sets.heard
        assert heard[1, VMS] > 0.0
        heard[1, VMS] = 0.0
    take(partition, 3)
    assert heard[1, VMS] > 0.0


@pytest.mark.parametrize("wrong", [(), (None,) * 10, ([], 0, 0, None, {}, {}, {}, 0.0, list, [])])
def test_other_arguments_are_refused(wrong: tuple[Any, ...]) -> None:
    assert native.STEP is not None
    with pytest.raises(TypeError):
        native.STEP.take_followers(*wrong)


@pytest.mark.parametrize(("at", "end"), [(-1, 0), (0, 1)])
def test_other_places_are_refused(at: int, end: int) -> None:
    assert native.STEP is not None
    with pytest.raises(IndexError):
        native.STEP.take_followers([], at, end, None, {}, {}, {}, 0.0, tuple, [])


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.binary(max_size=40), st.integers(0, 1 << 40), max_size=12), st.binary(max_size=30))
def test_positions_are_written_as_python_writes_them(counts: dict[bytes, int], key: bytes) -> None:
    assert native.STEP is not None
    states: dict[bytes, Any] = {}
    for member, frames in counts.items():
        states[member] = State("0", 1, VMS, 3)
        states[member].track.frames = frames
    command = write_positions(word(b"HSET") + word(key), states)
    assert native.STEP.write_positions(word(b"HSET") + word(key), states) == command
    plain = [each for member, state in states.items() for each in (member, bytes(state.track))]
    assert command == pack(("HSET", key, *plain))


@pytest.mark.parametrize("wrong", [{"text": None}, {b"member": None}, None])
def test_positions_of_what_is_no_state_are_refused(wrong: Any) -> None:
    assert native.STEP is not None
    with pytest.raises((TypeError, AttributeError)):
        native.STEP.write_positions(b"", wrong)


# ---------------------------------------------------------------- turns

#: Of a frame: the host, seconds since its frame before, which entities, whether it has codes.
TURN = st.tuples(
    st.integers(1, 4), st.sampled_from([1.0, 1.0, 1.0, 1.0, 2.5, 0.0]), st.sampled_from([1, 1, 1, 2]), st.booleans()
)


@settings(max_examples=150, deadline=None)
@given(st.lists(TURN, min_size=1, max_size=40), st.integers(1, 20), st.booleans(), st.integers(0, 1 << 32))
@pytest.mark.filterwarnings("ignore")
def test_a_turn_of_many_hosts_is_as_each_frame_alone(
    frames: list[tuple[int, float, int, bool]], together: int, with_inputs: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    thresholds = None if with_inputs else {"vms.nobody": 0.5}
    ours, singly, numpys = benches = [
        Bench(thresholds=thresholds, native=step) for step in (native.STEP, native.STEP, None)
    ]
    clocks = dict.fromkeys(range(1, 5), 100.0)
    made: list[list[Any]] = [[] for _ in benches]
    for number, (host, seconds, who, coded) in enumerate(frames):
        clocks[host] += seconds
        values = rng.normal(0.5, 0.3, (4, 4)).astype("<f4")
        marks = np.where(rng.random((4, 4)) < 0.2, 3, 0).astype(np.uint8) if coded else None
        for bench, mine in zip(benches, made, strict=True):
            mine.append(bench.frame(host, clocks[host], [1, 2, 3, 3 + who], values, marks))
        if len(made[0]) == together or number == len(frames) - 1:
            ours.feed(*made[0])
            for each in made[1]:
                singly.feed(each)
            numpys.feed(*made[2])
            commits = [bench.committed() for bench in benches]
            assert commits[0] == commits[1]
            assert commits[0].keys() == commits[2].keys()
            made = [[] for _ in benches]
    for host in ours.states:
        for bench in benches:
            bench.state(host).settle()
        assert ours.state(host).exceptions == singly.state(host).exceptions == numpys.state(host).exceptions
        assert bytes(ours.state(host).track) == bytes(singly.state(host).track)
        np.testing.assert_array_equal(ours.state(host).planes, singly.state(host).planes)
        np.testing.assert_allclose(ours.state(host).planes, numpys.state(host).planes, rtol=1e-5, atol=1e-5)
