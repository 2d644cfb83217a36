"""Well-formed frames with nonsense in them: the filter takes them, or puts them aside, and goes on."""

from __future__ import annotations

import hiredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.wire import frame
from acquisition.wire.frame import Frame
from acquisition.wire.records import smoothed
from filters import kernels
from filters.worker.compute.smoothing import Smoother
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from filters.worker.step.native import STEP

ALL = kernels.select(tuple(kernels.REGISTRY))
U64 = st.integers(0, 2**64 - 1)
SMALL = st.integers(0, 3)


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    n, m = draw(SMALL), draw(SMALL)
    cells = n * m
    sequence = draw(st.one_of(st.integers(1, 6), U64))
    made = Frame(
        draw(st.sampled_from([frame.KIND_SAMPLES, frame.KIND_SAMPLES, frame.KIND_TABLE])),
        draw(SMALL), draw(SMALL), draw(SMALL), n, m,
        draw(st.floats(width=32, min_value=0.0078125, allow_infinity=False)),
        draw(SMALL), sequence, min(sequence, draw(st.one_of(st.integers(1, 6), U64))),
        draw(st.one_of(st.integers(0, 50), U64)), draw(st.integers(-(2**63), 2**63 - 1)),
        draw(st.floats(allow_nan=False, allow_infinity=False)), draw(st.floats(allow_nan=False, allow_infinity=False)),
        draw(st.binary(min_size=n * 8, max_size=n * 8)),
        draw(st.binary(min_size=cells * 4, max_size=cells * 4)),
        draw(st.one_of(st.just(b""), st.binary(min_size=cells, max_size=cells))),
    )  # fmt: skip
    if made.kind == frame.KIND_TABLE:
        made = made._replace(
            entities=0, metrics=0, ids=b"", values=b"", codes=b"", payload=draw(st.binary(max_size=40))
        )
    return frame.encode(made)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(frames(), st.binary(max_size=120)), min_size=1, max_size=12))
def test_nothing_stops_the_filter(entries: list[bytes]) -> None:
    chosen = FilterSettings()
    partition = Partition(0, "0", 1, chosen, STEP)
    smoother = Smoother(FilterSettings(), ALL)
    for number, data in enumerate(entries):
        with partition.batch([(b"%d-0" % (number + 1), [b"f", data])]) as batch:
            smoother.smooth(batch.accepted)
            pieces, _ = partition.commit(batch)
        for record in records(b"".join(bytes(piece) for piece in pieces)):
            assert record.codes().shape == next(iter(record.planes.values())).shape
    for state in partition.sets.states.values():
        position = state.track.position()
        assert min(position._replace(tick=0, wall=0.0, lost_tick=0)) >= 0  # every count


def test_invalid_samples_of_mixed_read_count_in_own_epoch() -> None:
    partition = Partition(0, "0", 1, FilterSettings(), STEP)
    smoother = Smoother(FilterSettings(), ALL)
    values = bytes(4 * 3)
    old = Frame(frame.KIND_SAMPLES, 1, 1, 1, 1, 3, 1.0, 7, 1, 1, 0, 1, 1.0, 1.0, bytes(8), values, b"\3\3\3")
    new = old._replace(epoch=8, codes=b"\0\3\0", tick=2, wall=2.0, monotonic=2.0)
    with partition.batch([(b"1-0", [b"f", frame.encode(old)]), (b"2-0", [b"f", frame.encode(new)])]) as batch:
        smoother.smooth(batch.accepted)
    (state,) = partition.sets.states.values()
    assert (state.track.applied, state.track.invalid) == (3, 1)


def records(data: bytes) -> list[smoothed.SmoothedRecord]:
    """The smoothed records that the commands of a transaction write."""
    reader = hiredis.Reader()
    reader.feed(data)
    found = []
    while command := reader.gets():
        if command[0] == b"SET" and command[1].startswith(b"smoothed:"):
            found.append(smoothed.decode(command[2]))
    return found
