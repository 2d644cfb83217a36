"""Uses of decoded values: sequence rule, books, names, blocks, documents.

Each use takes the bytes of a key, as any client may have written them, and returns whether its decoder accepted them.
It raises Unsound, or any exception of the product: both are bugs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
from msgspec import structs

from acquisition.errors import FrameError
from acquisition.snapshot.reading import records
from acquisition.snapshot.reading.positions import positions_of
from acquisition.snapshot.reading.records import Due
from acquisition.snapshot.reconcile.balance import REPORTED, Source, balance
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Member, Place
from acquisition.snapshot.values.names import NamesCache
from acquisition.snapshot.values.rows import Selection, rows_of
from acquisition.snapshot.visibility import causes
from acquisition.snapshot.visibility.causes import Visibility
from acquisition.status.document import _archived
from acquisition.wire import archived, frame, position, status, table
from acquisition.wire.frame import Frame
from acquisition.wire.position import Position
from acquisition.wire.status import SetStatus
from acquisition.wire.table import Entity, Table
from experiments.fuzz import tellings
from experiments.fuzz.line_oracle import Unsound
from filters.archive.status_command import _by_host
from filters.worker.partitions.dormant_positions import DormantPositions
from filters.worker.partitions.resource_sets import ResourceSets
from filters.worker.partitions.settings import FilterSettings
from filters.worker.states.name_table import learn
from filters.worker.states.sequence import Track
from probes.metrics import PROCESSES

TICK = 1_700_000_000
HOST, SET = 7, 5
TABLE = Table("h", "processes", 1.0, "procfs", True, PROCESSES.metrics[:2], (Entity(1, "vm", "u", "1", "guest"),))
_DUE = Due(TICK + 1.75, 0.5, 3)
_MEMBER = Member("7.0", HOST, SET, "smoothed:{7.0}:")
_SENT = SetStatus(9, 100, 50, 1, 50, "8-0", 100, 0, 0, 0, 0, 0, 0)
_POSITION = Position(9, 3, TICK, TICK + 0.5, 1.0, applied=12, made=12)
_ACCOUNT = balance(Source(HOST, "h", SET, REPORTED, 0.0), _SENT, _POSITION, b"9-0")


def _use_table(data: bytes) -> bool:
    names = NamesCache()
    refused = names.put(HOST, SET, data, 1.0)
    try:
        learnt = learn(learn(None, table.encode(TABLE)), data)
    except FrameError:
        if refused is None:
            raise Unsound("a reader takes a table that the filter refuses") from None
        return False
    found = names.get(HOST, SET)
    if found is None:
        raise Unsound("a reader refuses a table that the filter takes")
    known = table.decode(data)
    if table.decode(table.encode(known)) != known:
        raise Unsound("a table that was let pass is not encoded as the same")
    if not (0 < known.interval < math.inf) or any(math.isnan(m.low) or math.isnan(m.high) for m in known.metrics):
        raise Unsound("invalid number in a table")
    ids = np.array([entity.id for entity in known.entities], np.uint64)
    learnt.covers(ids)
    found.knows(ids.tobytes(), found.schema)
    found.entities_of(ids.tobytes())
    _told(known)
    return True


def _use_position(data: bytes) -> bool:
    try:
        known = position.decode(data)
    except FrameError:
        known = None
    (sound,) = positions_of([data])[1].tolist()
    if sound != (known is not None):
        raise Unsound("arrays of positions see another one as sound than the decoder")
    if known is None:
        return False
    track = Track()
    track.restore(known)
    _count_on(track)
    block = records.begin(_MEMBER, Place(known, None))
    records.judge_coherent(block, None, TICK, _DUE)
    causes.look([block], Visibility({}, [""]), _DUE.now, 10.0)
    _told(block.quality._asdict())
    account = balance(Source(HOST, "h", SET, REPORTED, 0.0), _SENT, known, b"9-0")
    _told(structs.asdict(account))
    return True


def _use_dormant(data: bytes) -> bool:
    sets = ResourceSets(HOST, "7.0", 64, FilterSettings())
    positions = DormantPositions("7.0")
    state = sets.add(HOST, SET)
    positions.load([state.member, data])
    positions.recall(state)
    _count_on(state.track)
    return bool(state.track.epoch)


def _use_commit(data: bytes) -> bool:
    try:
        known = position.decode_commit(data)
    except FrameError:
        return False
    if max(map(int, known.cursor.split(b"-"))) >= 1 << 64:
        raise Unsound("a cursor that no shard takes was let pass")
    _told([known.rejected, known.fair_share])
    return True


def _use_status(data: bytes) -> bool:
    try:
        known = status.decode(data)
    except FrameError:
        return False
    for number, row in known.sets.items():
        account = balance(Source(HOST, known.host_name, number, REPORTED, 0.0), row, _POSITION, b"9-0")
        _told(structs.asdict(account))
    return True


def _use_archived(data: bytes) -> bool:
    try:
        rows = archived.decode(data)
    except FrameError:
        return False
    if archived.decode(archived.encode(rows)) != rows:
        raise Unsound("books of the archive that were let pass are not encoded as the same")
    _told([_archived(row, _ACCOUNT) for row in rows])
    _told(_by_host(rows, [_ACCOUNT]))
    return True


def _use_record(data: bytes) -> bool:
    block = Block(HOST, SET, _POSITION)
    for judge in (records.judge_coherent, records.judge_latest):
        judge(block, data, TICK, _DUE)
    causes.look([block], Visibility({}, [""]), _DUE.now, 10.0)
    _told([structs.asdict(row) for row in rows_of([block], Selection.of())])
    return block.has_values


USES: Mapping[str, Callable[[bytes], bool]] = {
    "table": _use_table, "position": _use_position, "dormant": _use_dormant, "commit": _use_commit,
    "status": _use_status, "archived": _use_archived, "record": _use_record,
    tellings.TOLD: tellings.use_told, tellings.EVENT: tellings.use_event,
}  # fmt: skip


def _count_on(track: Track) -> None:
    """Feed frames, the next one and one of a new epoch, with leaps in their counts; counts never decrease."""
    for epoch in (track.epoch, track.epoch ^ 1):
        for made in (frame.MOST_COUNTED - 1, 0, frame.MOST_COUNTED - 1, 5):
            number = track.sequence + 2
            if number >= frame.MOST_COUNTED or epoch != track.epoch:
                number = 1
            found = Frame(frame.KIND_SAMPLES, 1, HOST, SET, 1, 1, 1.0, epoch, number, number, made, 5, 5.0, 5.0)
            before = track.position()
            if not track.judge(found):
                track.apply(found)
            after = position.decode(position.encode(track.position()))
            counted = ("applied", "frames", "lost_frames", "duplicates", "refused")
            if epoch == before.epoch and any(getattr(after, name) < getattr(before, name) for name in counted):
                raise Unsound(f"a count went back from {before} to {after}")


def _told(value: Any) -> None:
    """Check that programs and people can read it."""
    msgspec.json.encode(value)
