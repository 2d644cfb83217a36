"""Entry fuzzer: a foreign client writes into streams of real shards.

The emulated hosts beside it must not notice.

Real redis-servers, the product's filter as a process, the product's writers. The foreign client adds entries with other
fields, other types of content, mutated frames, fields of megabytes, hundreds of fields; and for a while it replaces the
filter's keys by keys of other types. In some partitions it trims streams to nothing and writes mutated tables,
positions and records, and readers read all of it meanwhile. At the end the filter process is the same, has read
everything, has rejected invalid frames, and has lost or changed no sample of the emulated hosts.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from acquisition.errors import FrameError
from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from acquisition.model.identity import host_id
from acquisition.snapshot.reconcile.books import read_books
from acquisition.wire import frame as wire
from acquisition.wire import keys, position
from acquisition.wire.frame import Frame
from acquisition.wire.layout import Layout
from acquisition.wire.position import Commit
from experiments.emulation.workload import host_name
from experiments.fuzz import frames
from experiments.fuzz.guard import MemoryWatch, growth
from experiments.fuzz.stranger import TRIMMED, Stranger
from experiments.harness import pipeline
from experiments.harness.balance import of_hosts
from experiments.harness.options import Options
from experiments.harness.pipeline import Pipeline

KIND = "entries"
_BURST = 250
_HUGE_BYTES = 2 << 20
_HUGE_IN_ALL, _HUGE_EVERY = 256, 50  #: number of huge entries, to every partition in turn, at most one of 50 entries
_SETTLE_SECONDS = 60.0
_MOST_REJECTED = 1_200  #: of a stream that is cut at about 1,000
_POISONED = 3

Command = tuple[str, tuple[Any, ...]]


def fuzz(seed: int, count: int) -> dict[str, Any]:
    """``count`` foreign entries: the figures and the failures of the run. Raises ShardpulseError."""
    options = Options(hosts=20, entities=21, metrics=5, rate=2.0, seed=seed, shards=2, check=40, held_seconds=60.0)
    with tempfile.TemporaryDirectory(prefix="shardpulse-fuzz-") as name, pipeline.running(options, Path(name)) as parts:
        parts.tell("start")
        return _run(parts, seed, count)


def _run(parts: Pipeline, seed: int, count: int) -> dict[str, Any]:
    layout = read_layout(parts.cluster)
    random = Random(f"{seed}/{KIND}")
    memory = MemoryWatch(parts.filters[0].pid)
    began = time.monotonic()
    poisoned = _free_tags(layout, parts.options.hosts)[:_POISONED]
    _poison(parts.cluster, poisoned)
    numbers, stranger = _divide(layout, parts.options.hosts), Stranger(parts.cluster, layout, random)
    newest, refused = _write(parts, layout, random, count, memory, numbers, stranger)
    parts.run(2.0)
    failures = _recover(parts, layout, poisoned)
    behind = _wait_for(parts, newest)
    if behind:
        failures.append(f"the filter has not read the streams {', '.join(behind[:5])} to their end")
    reports = parts.finish()
    made = sum(report["counts"]["samples"] for report in reports)
    accounts = of_hosts(read_books(parts.cluster, layout), range(parts.options.hosts))  # foreign frames may name others
    lost = max(sum(row.lost for row in accounts), made - sum(row.before + row.applied for row in accounts))
    rejected, longest = _rejected(parts.cluster, layout)
    failures += _judge(parts, reports)
    failures += [f"{lost} samples of the emulated hosts were lost"] if lost else []
    if rejected < refused:
        failures.append(f"{refused} entries are no frames, {rejected} were rejected")
    if longest > _MOST_REJECTED:
        failures.append(f"a stream of rejected entries has grown to {longest}")
    grown = judged_growth(memory.points, count, layout.partitions)
    if grown is not None and not grown["flat"]:
        failures.append(f"the filter grew: {grown}")
    return {
        "written": count,
        "no_frames": refused,
        "put_aside": rejected,
        "longest_rejected_stream": longest,
        "samples_of_emulated_hosts": made,
        "samples_lost": lost,
        "memory": grown,
        "seconds": round(time.monotonic() - began, 1),
        "failures": [{"kind": KIND, "case": -1, "error": text, "where": "", "input": ""} for text in failures],
    }


def judged_growth(points: list[tuple[int, int]], count: int, partitions: int) -> dict[str, Any] | None:
    """Growth over the second half of a run; None for a run that is too short.

    Receive buffers are as large as the largest entry of their partition, and never shrink: each partition must have had
    a huge one by then.
    """
    half = count // 2
    if half < _huge_every(count) * partitions:
        return None
    return growth([(done - half, size) for done, size in points if done >= half], count - half)


def _huge_every(count: int) -> int:
    return max(_HUGE_EVERY, count // _HUGE_IN_ALL)


def _divide(layout: Layout, hosts: int) -> list[int]:
    """Partitions with untrimmed streams, in which every foreign entry is read."""
    trimmed = _free_tags(layout, hosts)[_POISONED : _POISONED + TRIMMED]
    return [number for number, tag in enumerate(layout.tags) if tag not in trimmed]


def _write(
    parts: Pipeline,
    layout: Layout,
    random: Random,
    count: int,
    memory: MemoryWatch,
    numbers: list[int],
    stranger: Stranger,
) -> tuple[dict[str, bytes], int]:
    """Write all entries; the newest entry id by stream, and the number that a correct reader has to reject."""
    newest: dict[str, bytes] = {}
    refused = 0
    pool: list[Any] = []
    number = huge_ones = 0
    every = _huge_every(count)
    for first in range(0, count, _BURST):
        commands: list[Command] = []
        for index in range(first, min(first + _BURST, count)):
            if not pool:
                pool = [entry.fields for read in frames.session(random.getrandbits(32), number).reads for entry in read]
                number += 1
            huge = index % every == 0
            tag_number = numbers[random.randrange(len(numbers)) if not huge else huge_ones % len(numbers)]
            huge_ones += huge
            fields = [b"f", random.randbytes(1) * _HUGE_BYTES] if huge else _fields(pool.pop(), random)
            refused += _is_no_frame(fields, tag_number, layout.partitions)
            key = keys.raw(layout.tags[tag_number])
            commands.append((key, ("XADD", key, "*", *fields)))
        for (key, _), reply in zip(commands, parts.cluster.gather(commands), strict=True):
            if isinstance(reply, bytes):
                newest[key] = reply
            else:
                refused -= 1  # a poisoned stream accepts no entries
        stranger.act([tag for number, tag in enumerate(layout.tags) if number not in numbers])
        memory.look(min(first + _BURST, count))
        for child in (*parts.filters, *parts.generators):
            child.check()
    return newest, refused


def _fields(fields: Any, random: Random) -> list[Any]:
    """Arguments of XADD for a case of ``frames``, or many random fields."""
    if random.getrandbits(6) == 0:
        return [random.randbytes(random.getrandbits(5)) for _ in range(2 * (1 + random.getrandbits(9)))]
    made = list(fields or ())
    return made if made and len(made) % 2 == 0 else [b"f", *made][:2] if made else [b"", b""]


def _is_no_frame(fields: list[Any], number: int, partitions: int) -> bool:
    """Whether an entry has to be rejected; others may be too, as their numbers are checked as well."""
    try:
        return fields[0] != b"f" or keys.partition_of(wire.decode(fields[1]).host, partitions) != number
    except FrameError:
        return True


def _free_tags(layout: Layout, hosts: int) -> list[str]:
    used = {layout.tag_of(host_id(host_name(index))) for index in range(hosts)}
    return [tag for tag in layout.tags if tag not in used]


def _poison(cluster: Cluster, tags: list[str]) -> None:
    """Write keys of other types and content in unused partitions."""
    for tag in tags:
        cluster.call(keys.raw(tag), "SET", keys.raw(tag), "no stream")
        cluster.call(keys.raw(tag), "DEL", keys.applied(tag), keys.commit(tag))
        cluster.call(keys.raw(tag), "RPUSH", keys.applied(tag), "no", "hash")
        cluster.call(keys.raw(tag), "SADD", keys.commit(tag), "no", "string")
    for tag in tags[:1]:
        cluster.call(keys.raw(tag), "DEL", keys.commit(tag), keys.applied(tag))
        cluster.call(keys.raw(tag), "SET", keys.commit(tag), b"\xff\0 not a cursor")
        cluster.call(
            keys.raw(tag), "HSET", keys.applied(tag), b"\0", b"\xff", "00:00", "x", "f" * 16 + ":" + "0" * 8, "y"
        )


def _recover(parts: Pipeline, layout: Layout, tags: list[str]) -> list[str]:
    """Remove the foreign streams; a good frame in each partition must then be applied."""
    failures = []
    for tag in tags:
        key = keys.raw(tag)
        parts.cluster.call(key, "DEL", key)
        host = next(number for number in range(1, 1 << 20) if layout.tag_of(number) == tag)
        good = wire.encode(Frame(wire.KIND_SAMPLES, 1, host, 1, 1, 1, 1.0, 1, 1, 1, 0, 1, 1.0, 1.0, bytes(8), bytes(4)))
        parts.cluster.call(key, "XADD", key, "*", "f", good)
        member = keys.member(host, 1)
        if not _within(lambda: parts.cluster.call(key, "HGET", keys.applied(tag), member) is not None):  # noqa: B023
            failures.append(f"partition {tag} does not work again after foreign keys in it were removed")
    return failures


def _wait_for(parts: Pipeline, newest: dict[str, bytes]) -> list[str]:
    """Streams with a cursor that has not passed the newest foreign entry in time."""
    behind = dict(newest)

    def passed() -> bool:
        for key in list(behind):
            value = parts.cluster.call(key, "GET", key.replace("raw:", "commit:", 1))
            if _number(_committed(value).cursor) >= _number(behind[key]):
                del behind[key]
        return not behind

    _within(passed)
    return list(behind)


def _within(done: Any) -> bool:
    deadline = time.monotonic() + _SETTLE_SECONDS
    while time.monotonic() < deadline:
        if done():
            return True
        time.sleep(0.1)
    return False


def _number(entry: bytes) -> tuple[int, int]:
    first, _, second = entry.partition(b"-")
    return int(first), int(second)


def _committed(value: bytes | None) -> Commit:
    """The commit in ``value``; nothing without a commit, or for our own poison."""
    try:
        return position.decode_commit(value or b"")
    except FrameError:
        return Commit(b"", b"0-0", 0)


def _rejected(cluster: Cluster, layout: Layout) -> tuple[int, int]:
    """Rejected entries, by the filter's own count, and the longest stream of them."""
    total = longest = 0
    for tag in layout.tags:
        value = cluster.call(keys.commit(tag), "GET", keys.commit(tag))
        total += _committed(value).rejected
        longest = max(longest, int(cluster.call(keys.rejected(tag), "XLEN", keys.rejected(tag))))
    return total, longest


def _judge(parts: Pipeline, reports: list[dict[str, Any]]) -> list[str]:
    """Problems of the emulated hosts."""
    _, verdict = parts.verify(reports)
    failures = list(verdict.examples[:3])
    if not all(report["drained"] for report in reports):
        failures.append("not everything of the emulated hosts was smoothed")
    return failures
