"""Frame fuzzer: mutated frames through decoder, filter and archive.

Filter and archive read, sequence, smooth and commit them in memory.

Some mutations leave the checksum broken: then the decoder must refuse. In the others it is repaired, so that they reach
the later steps. A VALID result must have been sent as VALID, be finite, and equal the sent value.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import NamedTuple

import hiredis
import numpy as np

from acquisition.errors import FrameError
from acquisition.model.codes import CODE_MASK, VALID
from acquisition.wire import frame as wire
from acquisition.wire import table
from acquisition.wire.frame import Frame
from acquisition.wire.records import smoothed
from acquisition.wire.records.smoothed import SmoothedRecord
from acquisition.wire.table import Entity, Table
from experiments.fuzz.frame_mutations import Entry, mutate
from experiments.fuzz.guard import bounded
from experiments.fuzz.line_oracle import Unsound
from filters import kernels
from filters.archive.following import partition as archive
from filters.worker.compute.smoothing import Smoother
from filters.worker.partitions.partition import Partition
from filters.worker.partitions.settings import FilterSettings
from filters.worker.step.native import STEP
from probes.metrics import PROCESSES

KIND = "frames"
_FRAMES = 48  #: per session
_CPU_SECONDS = 5.0
_CLOCK = 1_700_000_000_000  #: milliseconds, of the first entry
_KERNELS = kernels.select(tuple(kernels.REGISTRY))


class Session(NamedTuple):
    """One case: reads of several entries each, in stream order; ``mutated`` of them are mutated frames."""

    reads: tuple[tuple[Entry, ...], ...]
    mutated: int


class Outcome(NamedTuple):
    """Numbers of frames decoded, applied, and refused; VALID samples in the records."""

    decoded: int
    applied: int
    refused: int
    valid: int


def session(seed: int, number: int) -> Session:
    """Case ``number``: a function of the seed."""
    random = Random(f"{seed}/{KIND}/{number}")
    senders = [_Sender(random, host) for host in range(1 + random.getrandbits(2))]
    entries: list[Entry] = []
    mutated = 0
    for _ in range(_FRAMES):
        data = random.choice(senders).next_frame()
        if random.random() < 0.8:
            mutated += 1
            entries.append(mutate(data, random))
        else:
            entries.append(Entry([b"f", data], False))
        if entries and random.getrandbits(4) == 0:
            entries.append(random.choice(entries))  # resent, now or much later
    reads = []
    while entries:
        count = 1 + random.getrandbits(3)
        reads.append(tuple(entries[:count]))
        del entries[:count]
    return Session(tuple(reads), mutated)


def dump(case: Session) -> bytes:
    """The input, to be saved: a line per entry, a blank line between two reads."""
    reads = ["".join(f"{entry.fields!r}\n" for entry in read) for read in case.reads]
    return "\n".join(reads).encode()


def run(case: Session) -> Outcome:
    """Raises Unsound, Hang, or any exception of the product: all of them are bugs."""
    with bounded(_CPU_SECONDS):
        return _run(case)


def _run(case: Session) -> Outcome:
    partition = Partition(0, "0", 1, FilterSettings(tau={PROCESSES.metrics[0].name: 1.0}), STEP)
    smoother = Smoother(FilterSettings(), _KERNELS)
    archived = archive.Partition(0, 1, archive.Rules(retention=_CLOCK / 1000.0))
    decoded = applied = valid = number = 0
    epochs: dict[tuple[int, int], list[int]] = {}
    for read in case.reads:
        for entry in read:
            found = _decode(entry)
            if found is not None:
                decoded += 1
                seen = epochs.setdefault((found.host, found.resource_set), [])
                if seen[-1:] != [found.epoch]:
                    seen.append(found.epoch)
        ids = [b"%d-0" % (_CLOCK + number + i) for i in range(1, len(read) + 1)]
        number += len(read)
        entries = [(name, entry.fields) for name, entry in zip(ids, read, strict=True)]
        archived.take(entries)
        with partition.batch(entries) as batch:
            applied += len(batch.accepted)
            smoother.smooth(batch.accepted)
            frames = [each.decoded() for each in batch.accepted]
            pieces, _ = partition.commit(batch)
        newest = {(found.host, found.resource_set, found.tick % 3): found for found in frames}
        for record in _records(b"".join(bytes(piece) for piece in pieces)):
            valid += _judge(record, newest)
    _books(partition, epochs)
    told = archived.close(_CLOCK + number, finish=True)
    archived.written()
    for event in told.events:
        if event.kind == "put_aside":
            raise Unsound(f"the archive could not take an entry: {event.details['reason']}")
    if min(archived.counts) < 0 or archived.counts.open:
        raise Unsound(f"the books of the archive make no sense: {archived.counts}")
    return Outcome(decoded, applied, partition.rejections.count, valid)


def _decode(entry: Entry) -> Frame | None:
    """The entry's frame if the decoder accepts it. Raises Unsound if it accepts a broken one."""
    data = entry.fields[1] if isinstance(entry.fields, list) and len(entry.fields) > 1 else None
    if not isinstance(data, bytes):
        return None
    try:
        found = wire.decode(data)
    except FrameError:
        return None
    if entry.broken:
        raise Unsound("a frame whose checksum does not match was decoded")
    cells = found.entities * found.metrics
    if len(found.values) != 4 * cells or len(found.ids) != 8 * found.entities or len(found.codes) not in (0, cells):
        raise Unsound(f"{found.entities} x {found.metrics} does not fit the parts of the decoded frame")
    return found


def _judge(record: SmoothedRecord, newest: dict[tuple[int, int, int], Frame]) -> int:
    """The number of VALID samples of a record. Raises Unsound if one of them was not sent as such."""
    frame = newest.get((record.host, record.resource_set, record.tick % 3))
    if frame is None or frame.sequence != record.sequence:
        raise Unsound("a record of a frame that was not the newest of its slot")
    values = np.frombuffer(frame.values, "<f4")
    sent = np.frombuffer(frame.codes, np.uint8) if frame.codes else np.zeros(values.size, np.uint8)
    codes = record.codes().ravel()
    usable = (codes & CODE_MASK) == VALID
    if (usable & ((sent & CODE_MASK) != VALID)).any():
        raise Unsound("a sample that was sent as invalid is VALID in the record")
    if not np.isfinite(values[usable]).all():
        raise Unsound("a VALID sample of the record is no finite number")
    for name, plane in record.planes.items():
        found = plane.ravel()[usable]
        if name == "last" and not np.array_equal(found, values[usable]):
            raise Unsound("the record holds another last value than the frame")
        if not np.isfinite(found).all():
            raise Unsound(f"the {name} of a VALID sample is no finite number")
    if record.ids.tobytes() != frame.ids:
        raise Unsound("the record has other rows than the frame")
    return int(usable.sum())


def _books(partition: Partition, epochs: dict[tuple[int, int], list[int]]) -> None:
    """Check the counts. An epoch repeated within a read (which no probe does) counts invalid samples twice."""
    for key, state in partition.sets.states.items():
        position = state.track.position()
        counts = position._replace(tick=0, wall=0.0, lost_tick=0)
        again = len(set(epochs.get(key, ()))) < len(epochs.get(key, ()))
        if min(counts) < 0 or (position.invalid > position.applied and not again):
            raise Unsound(f"the books of a resource set make no sense: {position}")


def _records(data: bytes) -> Iterator[SmoothedRecord]:
    """The smoothed records written by the commands of a transaction."""
    reader = hiredis.Reader()
    reader.feed(data)
    while command := reader.gets():
        if command[0] == b"SET" and command[1].startswith(b"smoothed:"):
            yield smoothed.decode(command[2])


class _Sender:
    """Makes good frames of one host: tables, samples with and without codes, rows that come and go."""

    def __init__(self, random: Random, host: int) -> None:
        self._random = random
        self._host = host
        self._metrics = PROCESSES.metrics[: 1 + random.getrandbits(4) % len(PROCESSES.metrics)]
        self._rows = list(range(random.getrandbits(3)))
        self._sequence = 0
        self._made = 0
        self._monotonic = random.random() * 1e6

    def next_frame(self) -> bytes:
        """The next in order, encoded."""
        random = self._random
        self._sequence += 1
        self._monotonic += random.random() * 2.0 + 1e-3
        if random.getrandbits(3) == 0:
            return wire.encode(self._frame(wire.KIND_TABLE, 0, 0)._replace(payload=self._table()))
        if random.getrandbits(3) == 0:
            self._rows = [row for row in self._rows if random.getrandbits(2)] + [random.getrandbits(20)]
        n, m = len(self._rows), len(self._metrics)
        values = struct.pack(f"<{n * m}f", *(random.random() * 1e6 for _ in range(n * m)))
        codes = bytes(random.getrandbits(4) % 12 for _ in range(n * m)) if random.getrandbits(1) else b""
        ids = struct.pack(f"<{n}Q", *self._rows)
        data = wire.encode(self._frame(wire.KIND_SAMPLES, n, m)._replace(ids=ids, values=values, codes=codes))
        self._made += n * m
        return data

    def _frame(self, kind: int, n: int, m: int) -> Frame:
        wall = 1.7e9 + self._monotonic
        floor = self._sequence - (self._random.getrandbits(1) if self._sequence > 1 else 0)  # a gap blocks nothing
        return Frame(
            kind, 77, self._host, 5, n, m, 1.0, 9, self._sequence, floor, self._made, int(wall), wall, self._monotonic
        )  # fmt: skip

    def _table(self) -> bytes:
        entities = tuple(Entity(row, "process", f"h:{row}", "1", f"p{row}") for row in self._rows)
        return table.encode(Table("h", "processes", 1.0, "procfs", True, self._metrics, entities))
