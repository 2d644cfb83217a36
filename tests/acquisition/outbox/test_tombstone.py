"""A frame that no filter will ever take is given up, it alone; what a filter has not seen is not."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.link.layouts import write_layout
from acquisition.model.metric import schema_hash
from acquisition.outbox.frames.ring import AREA, RECORD_SIZE
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.frames.tombstone import HOPELESS, reason_of
from acquisition.shards.servers.launch import Shards
from acquisition.wire import frame, keys, position, rejected
from acquisition.wire.frame import Samples
from acquisition.wire.position import Commit
from acquisition.wire.rejected import Rejected
from tests.support.emptied import flush
from tests.support.fixture_types import MakePipeline
from tests.support.waiting import PATIENCE, eventually
from tests.support.writer_bench import METRICS, SET, Pipeline


def poison(pipeline: Pipeline) -> int:
    """Offer a frame that the encoder takes and no filter does: its wall clock shows infinity."""
    values = bytes(8)
    return pipeline.writer.offer(
        Samples(SET, schema_hash(METRICS), 1, 2, 1.0, 1, math.inf, float(pipeline.tick), bytes(8), values)
    )


def assert_only_it_is_lost(pipeline: Pipeline, reason: str) -> None:
    pipeline.turn_until(pipeline.is_applied)
    made = pipeline.outbox.windows[SET].made
    pipeline.turn_until(lambda: pipeline.account().made == made)
    account, found = pipeline.account(), pipeline.position()
    assert found is not None
    assert (account.lost, account.pending, account.duplicated, account.before) == (2, 0, 0, 0)
    assert account.applied == made - 2
    assert (found.lost_frames, found.frames) == (1, found.sequence)
    own = pipeline.writer.account()
    assert (own["dropped_frames"], own["dropped_samples"]) == (1, 2)
    assert own["errors"] == {f"retired_{reason}": 1}


@pytest.mark.parametrize("before", [0, 5])
@pytest.mark.parametrize("after", [0, 5])
def test_poisonous_frame_is_given_up_and_the_rest_goes_on(make_pipeline: MakePipeline, before: int, after: int) -> None:
    """First or last of all, or in the middle."""
    pipeline = make_pipeline(position_interval=0.05)
    pipeline.start_filter()
    pipeline.offer(before)
    poison(pipeline)
    pipeline.offer(after)
    assert_only_it_is_lost(pipeline, "shape")
    entries = pipeline.cluster.call(keys.rejected(pipeline.tag), "XLEN", keys.rejected(pipeline.tag))
    assert entries == 3  # sent once, and again twice


def test_two_poisonous_frames_in_a_row_cost_both(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(position_interval=0.05)
    pipeline.start_filter()
    pipeline.offer(3)
    poison(pipeline)
    poison(pipeline)
    pipeline.offer(3)
    pipeline.turn_until(pipeline.is_applied)
    found = pipeline.position()
    assert found is not None
    assert (found.lost, found.lost_frames, found.applied) == (4, 2, 12)
    assert pipeline.writer.account()["errors"] == {"retired_shape": 2}


def test_empty_shard_gets_frames_around_the_tombstone(make_pipeline: MakePipeline, shards: Shards) -> None:
    pipeline = make_pipeline(position_interval=0.05)
    pipeline.start_filter()
    pipeline.offer(5)
    poison(pipeline)
    pipeline.offer(5)
    assert_only_it_is_lost(pipeline, "shape")
    flush(pipeline.cluster, shards.addresses)
    write_layout(pipeline.cluster, keys.DEFAULT_PARTITIONS)
    pipeline.offer(5)
    assert_only_it_is_lost(pipeline, "shape")


def test_later_process_goes_on_with_the_tombstone(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    ring = str(tmp_path / "ring")
    pipeline = make_pipeline(outbox=Outbox(ring), position_interval=0.05)
    worker = pipeline.start_filter()
    pipeline.offer(5)
    poison(pipeline)
    pipeline.offer(5)
    assert_only_it_is_lost(pipeline, "shape")
    made = pipeline.outbox.windows[SET].made
    pipeline.writer.close()
    again = make_pipeline(outbox=Outbox(ring), position_interval=0.05)
    again.worker, pipeline.worker, again.tick = worker, None, pipeline.tick
    window = again.outbox.windows[SET]
    assert (again.outbox.found, window.made, window.floor_made) == ("recovered", made, 0)
    kinds = [frame.decode(again.outbox.read(i)).kind for i in range(again.outbox.first, again.outbox.end)]
    assert kinds.count(frame.KIND_TOMBSTONE) == 1
    again.offer(2)
    again.turn_until(again.is_applied)
    assert again.writer.account()["errors"] == {}


def test_frame_damaged_in_ring_is_not_sent_as_valid(make_pipeline: MakePipeline, tmp_path: Path) -> None:
    ring = tmp_path / "ring"
    pipeline = make_pipeline(outbox=Outbox(str(ring)), position_interval=0.05)
    pipeline.offer(10)
    assert pipeline.writer.drain(PATIENCE)
    entry = next(e for i in range(5, 11) if (e := pipeline.outbox.entry(i)).samples)
    with ring.open("r+b") as file:  # a bit of a value, under the probe's feet
        file.seek(AREA + entry.offset + RECORD_SIZE + frame.HEADER_SIZE + 9)
        file.write(b"\x55")
    pipeline.cluster.call(keys.raw(pipeline.tag), "XTRIM", keys.raw(pipeline.tag), "MAXLEN", 0)
    pipeline.start_filter()
    pipeline.offer()
    assert_only_it_is_lost(pipeline, "ring")


# ------------------------------------------------------------------ what is no reason


def stalls(pipeline: Pipeline) -> int:
    return int(pipeline.writer.account()["sets"][SET]["go_backs"])


def assert_nothing_was_given_up(pipeline: Pipeline) -> None:
    errors = pipeline.writer.account()["errors"]
    assert not [kind for kind in errors if kind.startswith("retired")]
    pipeline.turn_until(pipeline.is_applied)
    pipeline.assert_everything_applied_once()


def test_stream_that_is_trimmed_again_and_again(make_pipeline: MakePipeline) -> None:
    """The filter's cursor passes what it never saw, at every attempt."""
    pipeline = make_pipeline(position_interval=0.05)
    pipeline.start_filter()
    pipeline.offer(5)
    pipeline.turn_until(pipeline.is_applied)
    key = keys.raw(pipeline.tag)
    pipeline.stop_filter()  # or it would wait in a read that is answered before anything can be trimmed
    pipeline.offer()
    for attempt in range(5):
        pipeline.offer()
        assert pipeline.writer.drain(PATIENCE)
        newest = pipeline.cluster.call(key, "XREVRANGE", key, "+", "-", "COUNT", 1)
        pipeline.cluster.call(key, "XTRIM", key, "MINID", newest[0][0])
        worker = pipeline.start_filter()
        eventually(lambda worker=worker: worker.counters["commits"], meanwhile=lambda worker=worker: worker.turn(0.01))
        pipeline.stop_filter()
        pipeline.turn_until(lambda attempt=attempt: stalls(pipeline) > attempt)
    pipeline.start_filter()
    assert_nothing_was_given_up(pipeline)


@pytest.mark.parametrize("reason", ["version", "partition"])
def test_filter_that_does_not_know_it_yet(make_pipeline: MakePipeline, reason: str) -> None:
    """Put aside by a filter that is older than the probe, or works by another layout."""
    pipeline = make_pipeline(position_interval=0.02)
    key = keys.raw(pipeline.tag)
    pipeline.offer(3)
    assert pipeline.writer.drain(PATIENCE)
    cluster, tag = pipeline.cluster, pipeline.tag
    deadline = time.monotonic() + PATIENCE
    while stalls(pipeline) < 4:
        assert time.monotonic() < deadline
        for entry, _ in cluster.call(key, "XRANGE", key, "-", "+"):
            said = rejected.encode(Rejected(entry, reason, "not of ours"))
            cluster.call(keys.rejected(tag), "XADD", keys.rejected(tag), "*", *said)
            cluster.call(keys.commit(tag), "SET", keys.commit(tag), position.encode_commit(Commit(b"abc", entry, 1)))
        pipeline.turn_for(0.02)
    cluster.call(keys.commit(tag), "DEL", keys.commit(tag))
    pipeline.start_filter()
    assert_nothing_was_given_up(pipeline)


def test_filter_that_is_down_and_then_slow(make_pipeline: MakePipeline) -> None:
    pipeline = make_pipeline(position_interval=0.02)
    pipeline.offer(3)
    poison(pipeline)
    pipeline.offer(3)
    pipeline.turn_for(1.0)
    assert pipeline.writer.account()["errors"] == {}
    assert stalls(pipeline) == 0
    pipeline.start_filter()
    pipeline.turn_until(pipeline.is_applied)
    assert pipeline.writer.account()["errors"] == {"retired_shape": 1}


# ------------------------------------------------------------------ what the filter has put aside


def test_the_reason_is_that_of_this_very_entry() -> None:
    row = [b"9-1", [b"entry", b"5-0", b"reason", b"crc", b"message", b"m", b"data", b"d"]]
    other = [b"9-2", [b"entry", b"5-1", b"reason", b"shape"]]
    assert reason_of([row, other], b"5-0") == "crc"
    assert reason_of([row, other], b"5-1") == "shape"
    assert reason_of([row, other], b"5-2") == ""
    assert {"version", "partition", "kind", "flags"}.isdisjoint(HOPELESS)


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.binary(max_size=8), lambda inner: st.lists(inner, max_size=4), max_leaves=20
)


@given(anything)
def test_whatever_stands_there_is_no_reason_to_crash(reply: Any) -> None:
    assert reason_of(reply, b"5-0") == "" or isinstance(reply, list)
