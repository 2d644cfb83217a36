"""Field fuzzer: mutated key values through their decoders and users.

Values are tables, positions, commits, accounts, books and records, as foreign clients may write them; values accepted
by decoders go through ``experiments.fuzz.uses``.

A decoder refuses with FrameError or returns values that all of them can represent: finite numbers of 64 bits, UTF-8
text. No other error may be raised, and accepted values must be reproduced by their own encoder.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple

import numpy as np

from acquisition.wire import archived, position, status, table
from acquisition.wire.archived import Archived
from acquisition.wire.position import Commit, Position
from acquisition.wire.records import smoothed
from acquisition.wire.status import SetStatus
from acquisition.wire.table import Entity
from experiments.fuzz import tellings
from experiments.fuzz.guard import bounded
from experiments.fuzz.uses import HOST, SET, TABLE, TICK, USES

KIND = "fields"
_FIELDS = 64  #: per session
_CPU_SECONDS = 5.0
_WIDE = struct.Struct("<Q")
_ENDS = (0, 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
_DOUBLES = (0.0, -1.0, math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324)
#: Replacements for a JSON value.
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
    """Counts of values accepted and refused by decoders."""

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
    """Raises Unsound, Hang, or any exception of the product: all of them are bugs."""
    with bounded(_CPU_SECONDS):
        taken = sum(USES[field.what](field.data) for field in case.fields)
    return Outcome(taken, len(case.fields) - taken)


# -------------------------------------------------------------------- mutations


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
    """JSON with one of its values replaced."""
    starts = [at for at, byte in enumerate(data) if byte in b":,["]
    at = starts[int(random.random() * len(starts))] + 1
    end = at
    while end < len(data) and data[end] not in b",:]}":
        end += 1
    return data[:at] + _JSON[int(random.random() * len(_JSON))] + data[end:]


def _other_number(data: bytes, random: Random) -> bytes:
    """Replace a field of eight bytes by another number: a limit of its type, or NaN."""
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
    return table.encode(TABLE._replace(complete=bool(random.getrandbits(1)), entities=rows))


def _position(random: Random) -> bytes:
    made = random.getrandbits(20)
    return position.encode(Position(9, 1 + random.getrandbits(10), TICK, TICK + 0.5, 1.0, applied=made, made=made))


def _commit(random: Random) -> bytes:
    return position.encode_commit(
        Commit(b"ab", b"%d-0" % random.getrandbits(40), random.getrandbits(8), random.getrandbits(16))
    )


def _status(random: Random) -> bytes:
    row = SetStatus(9, 100, 50, 1, 50, "8-0", 100, random.getrandbits(5), 0, 0, 0, 0, 0)
    return status.encode("h", TICK + 0.5, {SET: row}, {"probe": {"step": "native"}, "position_interval": 2.0})


def _archived(random: Random) -> bytes:
    counts = [random.getrandbits(53) for _ in range(3)]
    row = Archived(HOST, SET, 9, random.getrandbits(20), sum(counts), *counts)
    return archived.encode([row, row._replace(resource_set=SET + 1)][: 1 + random.getrandbits(1)])


def _record(random: Random) -> bytes:
    n, m = 1 + random.getrandbits(1), 2
    values = np.frombuffer(random.randbytes(16 * n * m), "<f4")
    head = smoothed.HEADER.pack(
        smoothed.MAGIC, smoothed.VERSION, 4, m, n, 1, HOST, SET, 77, 1.0, 0, bytes((1, 2, 3, 4)).ljust(8, b"\0"), 9,
        3, TICK, TICK + 0.5, 5.0, TICK + 0.6,
    )  # fmt: skip
    return head + np.arange(n, dtype="<u8").tobytes() + values.tobytes() + struct.pack("<IIf", 1, 3, 2.0)


_MAKERS: Mapping[str, Callable[[Random], bytes]] = {
    "table": _table, "position": _position, "dormant": _position, "commit": _commit, "status": _status,
    "archived": _archived, "record": _record, tellings.TOLD: tellings.make_told, tellings.EVENT: tellings.make_event,
}  # fmt: skip
