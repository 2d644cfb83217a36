"""Status record: a probe's own account of samples made and sent, as JSON.

It is in ``status:{tag}:HOST`` beside the filter's applied positions, so that the
books (``acquisition.snapshot.reconcile.books``) compare two independent counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from acquisition.errors import FrameError

FORMAT = 1
EXPIRE_SECONDS = 600
_MOST = 1 << 64
_INFINITY = float("inf")
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=str)


class SetStatus(NamedTuple):
    """One resource set; counts are samples of this epoch unless called frames.

    Resent, dropped and go-backs are counted since the start of the probe, everything else since that of
    the epoch. Columns are found by name: those with a default may be absent, unknown ones are ignored.
    """

    epoch: int
    made: int
    frames: int  #: the newest sequence number
    floor: int  #: the oldest sequence number held
    sent: int  #: the newest sequence number acknowledged by the shard since the last go-back
    sent_id: str  #: its stream id, "" if absent
    sent_samples: int  #: samples made up to and including it
    applied: int  #: the applied sequence number last read by the probe
    resent_frames: int
    dropped_frames: int  #: given up by the ring, and not applied as far as the probe knows
    dropped_samples: int
    go_backs: int
    floor_samples: int = -1  #: samples made before the frame at floor; -1: not reported by the probe
    shed_frames: int = 0  #: given up before being sent: more is made than the pipeline takes
    shed_samples: int = 0
    next: int = -1  #: the next sequence number to send; -1: not reported by the probe


#: Written by ``encode`` without a type check of each value: every probe writes it every two seconds.
_TEXT_AT = SetStatus._fields.index("sent_id")
_ROW = '"%08x":[' + ",".join("%s" if each == _TEXT_AT else "%d" for each in range(len(SetStatus._fields))) + "]"
_OWN = f'"format":{FORMAT},"host":%s,"wall":%r,"fields":{_ENCODER.encode(SetStatus._fields)},"sets":{{%s}}'
_quoted = json.encoder.encode_basestring_ascii


class Status(NamedTuple):
    """``rest`` is everything else in the record: ring, errors, and additions of the probe."""

    host_name: str
    wall: float
    sets: dict[int, SetStatus]
    rest: dict[str, Any]


def members(values: dict[str, Any]) -> bytes:
    """Members of a record, encoded once for many records: the argument ``written`` of ``encode``."""
    return _ENCODER.encode(values)[1:-1].encode()


def encode(
    host_name: str, wall: float, sets: Mapping[int, SetStatus], rest: dict[str, Any], written: bytes = b""
) -> bytes:
    """Bytes of a record; ``sets`` has a row for each number of a resource set. Keys of ``rest`` never hide the
    record's own, nor do ``members`` in ``written`` hide those of ``rest``: of two equal keys the last one counts."""
    rows = [
        _ROW % (number, *row[:_TEXT_AT], _quoted(row.sent_id), *row[_TEXT_AT + 1 :]) for number, row in sets.items()
    ]
    own = _OWN % (_quoted(host_name), wall, ",".join(rows))
    return b"{%b}" % b",".join([part for part in (written, members(rest), own.encode()) if part])


def decode(data: bytes) -> Status:
    """Record in ``data``. Raises FrameError("payload") if it is invalid."""
    try:
        document: dict[str, Any] = json.loads(data)
        if document.pop("format") != FORMAT:
            raise ValueError("of another format")
        fields = document.pop("fields")
        sets = {}
        for key, values in document.pop("sets").items():
            named = dict(zip(fields, values, strict=True))
            sets[_resource_set(key)] = _set_status(named)
        wall = float(document.pop("wall"))
        if not -_INFINITY < wall < _INFINITY:
            raise ValueError(f"wall is {wall}")
        return Status(_text(document.pop("host")), wall, sets, document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise FrameError("payload", f"invalid status record: {error}") from error


def _text(value: object) -> str:
    if type(value) is not str:
        raise TypeError(f"{value!r:.40} is not text")
    value.encode()  # or it is not UTF-8: JSON can carry lone surrogates
    return value


def _resource_set(text: str) -> int:
    if len(text) != 8:
        raise ValueError(f"invalid resource set {text!r}")
    return int(text, 16)


def _set_status(named: dict[str, Any]) -> SetStatus:
    known = {name: named[name] for name in SetStatus._fields if name in named or name not in SetStatus._field_defaults}
    for name, value in known.items():
        if name == "sent_id":
            good = type(value) is str and len(value) < 64 and value.isascii()
        else:  # a bool is an int as well
            good = type(value) is int and SetStatus._field_defaults.get(name, 0) <= value < _MOST
        if not good:
            raise ValueError(f"{name} is {value!r:.80}")
    return SetStatus(**known)
