"""Frame mutations: bits, lengths, header fields, values and payloads.

Most of them repair the checksum.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from acquisition.wire import frame as wire

_CRC_END = 8

_INTEGERS = (
    0,
    1,
    2,
    3,
    255,
    256,
    *((1 << bits) + step for bits in (15, 16, 31, 32, 62, 63) for step in (-1, 0)),
    2**64 - 1,
)
_FLOATS = (0.0, -0.0, 1.0, -1.0, float("nan"), float("inf"), float("-inf"), 1e-300, 1e308, -1e308, 5e-324, 1e30)
_VALUES = (float("nan"), float("inf"), float("-inf"), 3.4e38, -3.4e38, 1e-45, 0.0, -1.0, 1e18)
_OFFSETS = {
    name: (struct.calcsize("<" + "".join(code for _, code in wire.HEADER_FIELDS[:at])), "<" + code)
    for at, (name, code) in enumerate(wire.HEADER_FIELDS)
}
_FIELDS = tuple(name for name in _OFFSETS if name not in ("magic", "crc"))


class Entry(NamedTuple):
    """One entry of the stream: its fields, and whether a correct decoder has to refuse it."""

    fields: Any
    broken: bool


def mutate(data: bytes, random: Random) -> Entry:
    """The entry of an encoded frame after one mutation; most checksums are repaired."""
    kind = random.getrandbits(4)
    if kind == 0:
        return Entry(_strange_fields(data, random), False)
    made = _mutation(bytearray(data), kind, random)
    repaired = random.random() < 0.7 and len(made) >= _CRC_END
    if repaired:
        struct.pack_into("<I", made, 4, zlib.crc32(memoryview(made)[_CRC_END:]))
    mutated = bytes(made)
    whole = len(made) >= _CRC_END and struct.unpack_from("<I", mutated, 4)[0] == zlib.crc32(mutated[_CRC_END:])
    return Entry([b"f", mutated], not whole)


def _mutation(data: bytearray, kind: int, random: Random) -> bytearray:
    if kind < 4:
        for _ in range(1 + random.getrandbits(2)):
            data[int(random.random() * len(data))] ^= 1 << random.getrandbits(3) % 8
    elif kind == 4:
        del data[int(random.random() * len(data)) :]
    elif kind == 5:
        data += random.randbytes(random.getrandbits(6))
    elif kind == 6 and len(data) > wire.HEADER_SIZE:
        at = wire.HEADER_SIZE + int(random.random() * (len(data) - wire.HEADER_SIZE))
        data[at : at + 4] = struct.pack("<f", random.choice(_VALUES))
    elif kind == 7:
        at = int(random.random() * len(data))
        data[at:at] = random.choice((b"\0", b"[" * 5000, b"9" * 5000, "é".encode(), b"1e999,", b"null", b'"'))
    elif kind == 8 and len(data) > wire.HEADER_SIZE:
        data[wire.HEADER_SIZE :] = _other_payload(random, bytes(data[wire.HEADER_SIZE :]))
    else:
        _overwrite(data, random.choice(_FIELDS), random)
    return data


def _overwrite(data: bytearray, field: str, random: Random) -> None:
    """Replace the number in one field of the header: by an extreme one, or one near the original."""
    offset, code = _OFFSETS[field]
    if code[-1] in "fd":
        choice = random.choice(_FLOATS)
        struct.pack_into(code, data, offset, choice if code[-1] == "d" or abs(choice) < 3e38 else float("inf"))
        return
    size = struct.calcsize(code)
    near = int.from_bytes(data[offset : offset + size], "little") + random.randrange(-3, 4)
    value = random.choice((near, random.choice(_INTEGERS), random.getrandbits(8 * size)))
    data[offset : offset + size] = (value % (1 << 8 * size)).to_bytes(size, "little")


def _other_payload(random: Random, payload: bytes) -> bytes:
    """Replace a table's payload by JSON of another shape."""
    if payload[:1] != b"{":
        return random.randbytes(len(payload))
    old, new = random.choice(_JSON)
    return payload.replace(old, new, 1 if random.getrandbits(1) else -1)


_JSON: Sequence[tuple[bytes, bytes]] = (
    (b"true", b"17"), (b'"h"', b"null"), (b'"processes"', b"[]"), (b"1.0", b"NaN"), (b"1.0", b"-1e999"),
    (b"[", b"{"), (b"]", b""), (b'"', b""), (b":", b"::"), (b'"entities"', b'"entitys"'), (b'"cores"', b'"\\ud800"'),
    (b"null", b"1e308"), (b'"process"', b'{"a":[]}'), (b"{}", b'{"pid":4}'), (b"0000", b"zzzz"), (b'"1"', b"1" * 5000),
)  # fmt: skip


def _strange_fields(data: bytes, random: Random) -> Any:
    """Fields that a foreign client may have written."""
    return random.choice(
        (
            [b"g", data], [b"f"], [], None, [b"f", b""], [b"", data], [b"F", data], [data, b"f"], [b"f", b"\0" * 200],
            [b"a", b"b", b"f", data], [b"f", data, b"f", b"again"], [b"f", b"SPLS" + data], [b"x" * 1000, b"y" * 1000],
            [b"k", b"v"] * 100,
        )
    )  # fmt: skip
