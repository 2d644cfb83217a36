"""From stream entries to rows, exactly once: whatever comes twice, late, never, and whenever the archiver dies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model.codes import FIRST, MISSING, RANGE
from acquisition.wire import frame as wire
from acquisition.wire import keys
from acquisition.wire.frame import Frame
from acquisition.wire.stream_id import parse
from filters.archive.following.partition import CLOCK, Partition, Rules
from tests.support.archived import Rows, assert_equal, reference

HOST = 7 * keys.DEFAULT_PARTITIONS + 7
BEGAN = 1_700_000_040  #: a minute's beginning
RULES = Rules(grace=5.0)
Entry = tuple[bytes, list[bytes]]


def frame(sequence: int, tick: int, *, epoch: int = 1, floor: int = 1, metrics: int = 2, entities: int = 2) -> Frame:
    """Frame ``sequence`` of an epoch; what it holds follows from its number."""
    rng = np.random.default_rng([epoch, sequence])
    values = rng.normal(50.0, 20.0, (entities, metrics)).astype("<f4")
    codes = np.where(rng.random(values.shape) < 0.2, RANGE, 0).astype(np.uint8)
    ids = np.arange(1, entities + 1, dtype="<u8")
    made = (sequence - 1) * entities * metrics
    return Frame(
        wire.KIND_SAMPLES, 99, HOST, 3, entities, metrics, 1.0, epoch, sequence, min(floor, sequence), made, tick,
        float(tick), float(tick), ids.tobytes(), values.tobytes(), codes.tobytes() if codes.any() else b"",
    )  # fmt: skip


def entries(frames: Sequence[Frame], every_ms: int = 1000, began: int = BEGAN) -> list[Entry]:
    """As a stream holds them, one every second."""
    return [(b"%d-0" % (began * 1000 + n * every_ms + 500), [b"f", wire.encode(one)]) for n, one in enumerate(frames)]


def as_they_come(frames: Sequence[Frame]) -> list[Entry]:
    """As a stream holds them, each half a second after its tick, or right behind the one before it."""
    found: list[Entry] = []
    now = 0
    for one in frames:
        now = max(now + 1, one.tick * 1000 + 500)
        found.append((b"%d-0" % now, [b"f", wire.encode(one)]))
    return found


def opened(rows: Rows) -> Partition:
    """An archiver that goes on where the rows end."""
    partition = Partition(HOST % keys.DEFAULT_PARTITIONS, keys.DEFAULT_PARTITIONS, RULES)
    if rows.cursor.commit_id:
        partition.resume(rows.cursor)
    return partition


def follow(stream: Sequence[Entry], rows: Rows, chunk: int = 7, crashes: frozenset[int] = frozenset()) -> Partition:
    """Read a stream to its end, committing what is due; at the crashes, by number of reads, memory is lost: by odd
    ones after a commit whose answer was never heard."""
    partition, reads = opened(rows), 0
    while True:
        found = [entry for entry in stream if parse(entry[0]) > parse(partition.read)][:chunk]
        reads += 1
        if not found:
            break
        partition.take(found)
        assert not any(one.difference for one in partition.books)
        now = parse(found[-1][0])[0]
        batch = partition.close(now) if partition.due(now) else None
        crash = reads in crashes
        if batch is not None and (not crash or reads % 2):
            assert rows.commit(batch)
            partition.written()
        if crash:
            partition = opened(rows)
    now = parse(stream[-1][0])[0] + 120_000
    if partition.due(now):
        assert rows.commit(partition.close(now))
        partition.written()
    return partition


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Frame], list[Frame]]:
    """What lies in a stream, and what of it an archive must hold: each frame once, however often it was sent."""
    count = draw(st.integers(1, 200))
    ticks, tick = [], BEGAN
    for _ in range(count):
        tick += draw(st.sampled_from([1] * 12 + [0, 3, 20, -2, -70]))
        ticks.append(tick)
    given_up = draw(st.dictionaries(st.integers(2, count + 1), st.integers(1, 9), max_size=4))  # before they were sent
    whole = [
        one._replace(made=one.made + sum(samples for number, samples in given_up.items() if number <= one.sequence))
        for one in (frame(n, at) for n, at in enumerate(ticks, 1))
    ]
    lost = draw(st.sets(st.integers(2, count + 1), max_size=4))
    stream = [one for one in whole if one.sequence not in lost]
    for _ in range(draw(st.integers(0, 3))):  # a probe goes back
        at = draw(st.integers(0, len(stream)))
        back = draw(st.integers(1, 40))
        stream[at:at] = stream[max(0, at - back) : at]
    for place in draw(st.lists(st.integers(1, 200), max_size=3)):  # one that a shard had lost, and is sent again
        if place < len(stream):
            one = stream.pop(place)
            stream.insert(place + draw(st.integers(0, 5)), one)
    first = stream[0].sequence
    return stream, list({one.sequence: one for one in stream if one.sequence >= first}.values())


@settings(max_examples=60)
@given(streams(), st.integers(1, 40), st.frozensets(st.integers(1, 60), max_size=8))
def test_rows_equal_a_reference_whenever_the_archiver_dies(
    found: tuple[list[Frame], list[Frame]], chunk: int, crashes: frozenset[int]
) -> None:
    stream, wanted = found
    rows = Rows()
    partition = follow(as_they_come(stream), rows, chunk, crashes)
    assert_equal(rows, reference(wanted))
    counts = partition.counts
    assert counts.archived == sum(one.samples for one in wanted)
    assert counts.open == 0
    (books,) = partition.books
    last = max(stream, key=lambda one: one.sequence)
    assert (books.host, books.resource_set, books.archived, books.difference) == (HOST, 3, counts.archived, 0)
    assert books.made == last.made + last.samples - wanted[0].made
    assert books.gap == counts.gap


def test_a_second_archiver_that_is_overtaken_writes_nothing() -> None:
    rows = Rows()
    stream = entries([frame(n, BEGAN + n) for n in range(1, 200)])
    first, second = opened(rows), opened(rows)
    first.take(stream[:100])
    second.take(stream[:150])
    now = parse(stream[149][0])[0]
    assert rows.commit(second.close(now))
    assert not rows.commit(first.close(parse(stream[99][0])[0]))
    follow(stream, rows)
    assert_equal(rows, reference([wire.decode(fields[1]) for _, fields in stream]))


def test_what_is_cut_away_is_a_gap_with_its_count() -> None:
    rows = Rows()
    frames = [frame(n, BEGAN + n) for n in range(1, 400)]
    stream = [entry for n, entry in enumerate(entries(frames)) if not 100 <= n < 110]
    partition = follow(stream, rows)
    assert partition.counts == (389 * 4, 40, 0)
    assert rows.gaps == 40
    (event,) = [event for event in rows.events if '"gap"' in event]
    assert '"not in the stream"' in event


def test_what_its_sender_holds_no_more_is_a_gap_at_once() -> None:
    rows = Rows()
    frames = [frame(n, BEGAN + n) for n in range(1, 20)] + [frame(n, BEGAN + n, floor=25) for n in range(25, 90)]
    partition = follow(entries(frames), rows)
    assert (partition.counts.gap, rows.gaps) == (20, 20)


def test_ticks_far_from_the_shards_clock_are_told_and_make_no_minute() -> None:
    rows = Rows()
    frames = [frame(1, BEGAN), frame(2, BEGAN + 400_000), frame(3, 0), frame(4, BEGAN + 299), frame(5, BEGAN + 3)]
    partition = follow(entries(frames), rows)
    assert {minute for _, minute, _, _ in rows.cells} == {BEGAN, BEGAN + 240} or partition.counts.open
    assert rows.gaps == 8
    (told,) = [event for event in rows.events if CLOCK in event]
    assert '"frames": 2' in told


def test_gaps_of_one_millisecond_are_events_of_their_own() -> None:
    """Frames of an outage come at once: their events are alike in everything but the frame."""
    rows = Rows()
    sent = [frame(1, BEGAN), frame(2, BEGAN + 400_000), frame(3, BEGAN + 1), frame(4, BEGAN + 400_000)]
    stream = [(b"%d-%d" % (BEGAN * 1000, n), [b"f", wire.encode(one)]) for n, one in enumerate(sent)]
    partition = opened(rows)
    for part in (stream[:2], stream[2:]):
        partition.take(part)
        assert rows.commit(partition.close(BEGAN * 1000 + 100_000))
    assert rows.gaps == 8


def test_an_epoch_that_begins_is_told_and_is_a_series_of_its_own() -> None:
    rows = Rows()
    frames = [frame(n, BEGAN + n) for n in range(1, 30)] + [frame(n, BEGAN + 29 + n, epoch=2) for n in range(1, 100)]
    follow(entries(frames), rows)
    assert_equal(rows, reference(frames))
    assert sum('"restart"' in event for event in rows.events) == 1


def test_restarted_stream_with_older_ids_is_read_without_doubles() -> None:
    rows = Rows()
    frames = [frame(n, BEGAN + n) for n in range(1, 300)]
    partition = follow(entries(frames[:200]), rows)
    refilled = entries(frames[150:], began=BEGAN - 100)
    partition.begin_anew()
    partition.take(refilled)
    assert rows.commit(partition.close((BEGAN + 600) * 1000))
    assert_equal(rows, reference(frames))


def with_codes(sequence: int, tick: int, codes: list[list[int]]) -> Frame:
    one = frame(sequence, tick)
    return one._replace(codes=np.array(codes, np.uint8).tobytes())


def test_what_a_source_never_provides_is_inventory_and_no_episode() -> None:
    rows = Rows()
    never = [with_codes(n, BEGAN + n, [[MISSING, 0], [MISSING, FIRST if n in (1, 80) else 0]]) for n in range(1, 180)]
    partition = follow(entries(never), rows)
    (episode,) = rows.episodes.values()
    assert (episode.code, episode.samples, episode.entity, episode.open) == (FIRST, 1, 2, False)
    # metric 1 was given before: that it is missing now is an episode
    stream = entries([with_codes(n, BEGAN + n, [[0, MISSING], [0, 0]]) for n in range(180, 310)], began=BEGAN + 179)
    partition.take(stream)
    assert rows.commit(partition.close((BEGAN + 500) * 1000))
    assert sorted(one.samples for one in rows.episodes.values()) == [1, 130]


def test_garbage_stops_nothing() -> None:
    rows = Rows()
    good = entries([frame(n, BEGAN + n) for n in range(1, 100)])
    bad: list[object] = [None, [], [b"f"], [b"f", b"garbage"], [b"g", b"x"], [b"f", good[3][1][1][:-1]]]
    partition = opened(rows)
    for number, entry in enumerate(good):
        partition.take([(entry[0], bad[number % len(bad)]), entry])
    assert rows.commit(partition.close((BEGAN + 600) * 1000))
    assert_equal(rows, reference([wire.decode(fields[1]) for _, fields in good]))


def test_new_episodes_per_host_and_minute_are_limited() -> None:
    rows = Rows()
    partition = opened(rows)
    wrong = bytes([RANGE]) * 700
    sets = [frame(1, BEGAN, entities=700, metrics=1)._replace(resource_set=n, codes=wrong) for n in (3, 4)]
    partition.take(entries(sets))
    batch = partition.close(BEGAN * 1000 + 100_000)
    assert len(batch.episodes) == 1000
    (left_out,) = [event for event in batch.events if event.kind == "episodes_left_out"]
    assert left_out.details["samples"] == 400
