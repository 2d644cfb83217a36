"""Mutated tables, positions, commits, accounts and records, as strangers may leave them in keys, through their decoders
and through those who go on with what these let pass: the filter's sequence, the books, names, a reader's block.

A decoder refuses with FrameError or answers what all of them can represent: finite numbers of 64 bits, text that is
UTF-8. Nothing else may be raised, and what was let pass must come back as the same from its own encoder.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, NamedTuple

import msgspec
import numpy as np

from acquisition.errors import FrameError
from acquisition.snapshot import judgement, record_arrays, sight
from acquisition.snapshot.balance import REPORTED, Source, balance
from acquisition.snapshot.block import Block
from acquisition.snapshot.judgement import Due
from acquisition.snapshot.names import NamesCache
from acquisition.snapshot.rows import rows_of
from acquisition.snapshot.selection import Selection
from acquisition.snapshot.shard_reading import Member, Place
from acquisition.snapshot.sight import Sight
from acquisition.wire import commit, frame, position, smoothed, status, table
from acquisition.wire.commit import Commit
from acquisition.wire.frame import Frame
from acquisition.wire.position import Position
from acquisition.wire.status import SetStatus
from acquisition.wire.table import Entity, Table
from experiments.fuzz import tellings
from experiments.fuzz.guard import bounded
from experiments.fuzz.line_oracle import Unsound
from filters.worker.dormant_positions import DormantPositions
from filters.worker.name_table import learn
from filters.worker.partition import Partition
from filters.worker.sequence import Track
from filters.worker.settings import FilterSettings
from probes.metrics import PROCESSES

KIND = "fields"
_FIELDS = 64  #: per session
_CPU_SECONDS = 5.0
_TICK = 1_700_000_000
_DUE = Due(_TICK + 1.75, 0.5, 3)
_HOST, _SET = 7, 5
_MEMBER = Member("7.0", _HOST, _SET, "smoothed:{7.0}:")
_WIDE = struct.Struct("<Q")
_ENDS = (0, 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_DOUBLES = (0.0, -1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324)
#: What a stranger may write where JSON has a value.
_JSON = (
    b"9" * 401, b"-" + b"9" * 401, b"1e999", b"-1e999", b"NaN", b"Infinity", b"-1", b"0", b"18446744073709551616",
    b"null", b"true", b"[]", b"{}", b'""', b'"\\ud800"', b'"\\udfff\\ud800"', b'"a\\u0000b"', b"[[[[[[", b"1e-400",
    b'"-000000000000001"', b'"20000000000000000"', b'"0x00000000000001"', b'"\xed\xa0\x80"', b'"\xff"', b'{"a":1e400}',
)  # fmt: skip


class Field(NamedTuple):
    """One value of a key; ``what`` names the decoder."""

    what: str
    data: bytes


class Session(NamedTuple):
    """One case."""

    fields: tuple[Field, ...]
    mutated: int


class Outcome(NamedTuple):
    """What decoders let pass, and what they refused."""

    taken: int
    refused: int


def session(seed: int, number: int) -> Session:
    """Case ``number``: a function of the seed."""
    random = Random(f"{seed}/{KIND}/{number}")
    sound = {what: make(random) for what, make in _MAKERS.items()}
    names = list(sound)
    fields = []
    for _ in range(_FIELDS):
        what = names[int(random.random() * len(names))]
        fields.append(Field(what, _mutate(sound[what], what, random)))
    return Session(tuple(fields), _FIELDS)


def dump(case: Session) -> bytes:
    """The input, to be saved: a line per field."""
    return "".join(f"{field.what} {field.data!r}\n" for field in case.fields).encode()


def run(case: Session) -> Outcome:
    """Raises Unsound, Hang, or whatever the product raises: all of them are bugs."""
    with bounded(_CPU_SECONDS):
        taken = sum(_USES[field.what](field.data) for field in case.fields)
    return Outcome(taken, len(case.fields) - taken)


# -------------------------------------------------------------------- who goes on with what is let pass


def _use_table(data: bytes) -> bool:
    names = NamesCache()
    refused = names.put(_HOST, _SET, data, 1.0)
    try:
        learnt = learn(learn(None, table.encode(_TABLE)), data)
    except FrameError:
        if refused is None:
            raise Unsound("a reader takes a table that the filter refuses") from None
        return False
    found = names.get(_HOST, _SET)
    if found is None:
        raise Unsound("a reader refuses a table that the filter takes")
    known = table.decode(data)
    if table.decode(table.encode(known)) != known:
        raise Unsound("a table that was let pass is not encoded as the same")
    if not (0 < known.interval < math.inf) or any(math.isnan(m.low) or math.isnan(m.high) for m in known.metrics):
        raise Unsound("a number of a table is none")
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
    (sound,) = record_arrays.positions_of([data])[1].tolist()
    if sound != (known is not None):
        raise Unsound("arrays of positions see another one as sound than the decoder")
    if known is None:
        return False
    track = Track()
    track.restore(known)
    _count_on(track)
    block = judgement.begin(_MEMBER, Place(known, None))
    judgement.judge_coherent(block, None, _TICK, _DUE)
    sight.look([block], Sight({}, [""]), _DUE.now, 10.0)
    _told(block.quality._asdict())
    account = balance(Source(_HOST, "h", _SET, REPORTED, 0.0), _SENT, known, b"9-0")
    _told(account._asdict())
    return True


def _use_dormant(data: bytes) -> bool:
    partition = Partition(_HOST, "7.0", 64, FilterSettings())
    positions = DormantPositions("7.0")
    state = partition.add(_HOST, _SET)
    positions.load([state.member, data])
    positions.recall(state)
    _count_on(state.track)
    return bool(state.track.epoch)


def _use_commit(data: bytes) -> bool:
    try:
        known = commit.decode(data)
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
        account = balance(Source(_HOST, known.host_name, number, REPORTED, 0.0), row, _POSITION, b"9-0")
        _told(account._asdict())
    return True


def _use_record(data: bytes) -> bool:
    block = Block(_HOST, _SET, _POSITION)
    for judge in (judgement.judge_coherent, judgement.judge_latest):
        judge(block, data, _TICK, _DUE)
    sight.look([block], Sight({}, [""]), _DUE.now, 10.0)
    _told([msgspec.structs.asdict(row) for row in rows_of([block], Selection.of())])
    return block.has_values


_USES: Mapping[str, Callable[[bytes], bool]] = {
    "table": _use_table, "position": _use_position, "dormant": _use_dormant, "commit": _use_commit,
    "status": _use_status, "record": _use_record, tellings.TOLD: tellings.use_told, tellings.EVENT: tellings.use_event,
}  # fmt: skip


def _count_on(track: Track) -> None:
    """Frames come, from the next one and from a new epoch, with counts that leap; what was counted never gets less."""
    for epoch in (track.epoch, track.epoch ^ 1):
        for made in (frame.MOST_COUNTED - 1, 0, frame.MOST_COUNTED - 1, 5):
            number = track.sequence + 2
            if number >= frame.MOST_COUNTED or epoch != track.epoch:
                number = 1
            found = Frame(frame.KIND_SAMPLES, 1, _HOST, _SET, 1, 1, 1.0, epoch, number, number, made, 5, 5.0, 5.0)
            before = track.position()
            if not track.judge(found):
                track.apply(found)
            after = position.decode(position.encode(track.position()))
            counted = ("applied", "frames", "lost_frames", "duplicates", "refused")
            if epoch == before.epoch and any(getattr(after, name) < getattr(before, name) for name in counted):
                raise Unsound(f"a count went back from {before} to {after}")


def _told(value: Any) -> None:
    """Programs and people must be able to read it."""
    msgspec.json.encode(value)


# -------------------------------------------------------------------- what is mutated


def _mutate(data: bytes, what: str, random: Random) -> bytes:
    kind = random.getrandbits(3)
    if kind == 0:
        return _flip(data, random)
    if kind == 1:
        return data[: int(random.random() * len(data))] + random.randbytes(random.getrandbits(3))
    if what in (tellings.TOLD, tellings.EVENT):
        return tellings.mutate(data, random)
    if what in ("table", "status"):
        return _other_value(data, random)
    if what == "commit":
        number = b"9" * (1 + random.getrandbits(5))
        return b"ab %b-%b %b %b" % tuple(random.choice((b"0", b"7", number)) for _ in range(4))
    return _other_number(data, random)


def _flip(data: bytes, random: Random) -> bytes:
    flipped = bytearray(data)
    for _ in range(1 + random.getrandbits(2)):
        flipped[int(random.random() * len(flipped))] ^= 1 << (random.getrandbits(3) % 8)
    return bytes(flipped)


def _other_value(data: bytes, random: Random) -> bytes:
    """JSON with something else in the place of one of its values."""
    starts = [at for at, byte in enumerate(data) if byte in b":,["]
    at = starts[int(random.random() * len(starts))] + 1
    end = at
    while end < len(data) and data[end] not in b",:]}":
        end += 1
    return data[:at] + _JSON[int(random.random() * len(_JSON))] + data[end:]


def _other_number(data: bytes, random: Random) -> bytes:
    """A field of eight bytes is another number: an end of its type, or a float that is none."""
    made = bytearray(data)
    for _ in range(1 + random.getrandbits(1)):
        at = 8 * int(random.random() * (len(made) // 8))
        if random.getrandbits(1):
            _WIDE.pack_into(made, at, random.choice(_ENDS))
        else:
            struct.pack_into("<d", made, at, random.choice(_DOUBLES))
    return bytes(made)


def _table(random: Random) -> bytes:
    ids = [random.getrandbits(64) for _ in range(random.getrandbits(2))]
    rows = tuple(Entity(each, "vm", f"u{each}", "1", "guest", {"uuid": "1"}) for each in ids)
    return table.encode(_TABLE._replace(complete=bool(random.getrandbits(1)), entities=rows))


def _position(random: Random) -> bytes:
    made = random.getrandbits(20)
    return position.encode(Position(9, 1 + random.getrandbits(10), _TICK, _TICK + 0.5, 1.0, applied=made, made=made))


def _commit(random: Random) -> bytes:
    return commit.encode(Commit(b"ab", b"%d-0" % random.getrandbits(40), random.getrandbits(8), random.getrandbits(16)))


def _status(random: Random) -> bytes:
    row = SetStatus(9, 100, 50, 1, 50, "8-0", 100, random.getrandbits(5), 0, 0, 0, 0, 0)
    return status.encode("h", _TICK + 0.5, {_SET: row}, {"probe": {"step": "native"}, "position_interval": 2.0})


def _record(random: Random) -> bytes:
    n, m = 1 + random.getrandbits(1), 2
    values = np.frombuffer(random.randbytes(16 * n * m), "<f4")
    head = smoothed.HEADER.pack(
        smoothed.MAGIC, smoothed.VERSION, 4, m, n, 1, _HOST, _SET, 77, 1.0, 0, bytes((1, 2, 3, 4)).ljust(8, b"\0"), 9,
        3, _TICK, _TICK + 0.5, 5.0, _TICK + 0.6,
    )  # fmt: skip
    return head + np.arange(n, dtype="<u8").tobytes() + values.tobytes() + struct.pack("<IIf", 1, 3, 2.0)


_SENT = SetStatus(9, 100, 50, 1, 50, "8-0", 100, 0, 0, 0, 0, 0, 0)
_POSITION = Position(9, 3, _TICK, _TICK + 0.5, 1.0, applied=12, made=12)
_TABLE = Table("h", "processes", 1.0, "procfs", True, PROCESSES.metrics[:2], (Entity(1, "vm", "u", "1", "guest"),))
_MAKERS: Mapping[str, Callable[[Random], bytes]] = {
    "table": _table, "position": _position, "dormant": _position, "commit": _commit, "status": _status,
    "record": _record, tellings.TOLD: tellings.make_told, tellings.EVENT: tellings.make_event,
}  # fmt: skip
