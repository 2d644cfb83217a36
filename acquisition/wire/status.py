"""The status record: a probe's own account of what it made and sent, as JSON.

It stands in ``status:{tag}:HOST`` beside the filter's applied positions, so that the
books (``acquisition.snapshot.books``) compare two counts that were made independently.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.outbox.window import SendWindow

FORMAT = 1
EXPIRE_SECONDS = 600
_ENCODER = json.JSONEncoder(separators=(",", ":"), default=str)


class SetStatus(NamedTuple):
    """One resource set; counts are samples of this epoch unless they say frames."""

    epoch: int
    made: int
    frames: int  #: the newest sequence number
    floor: int  #: the oldest sequence number held
    sent: int  #: the newest sequence number that the shard acknowledged since the last go-back
    sent_id: str  #: its stream id, "" when there is none
    sent_samples: int  #: samples made up to and including it
    applied: int  #: the applied sequence number that the probe has read
    resent_frames: int
    dropped_frames: int  #: dropped by the ring before the probe knew them applied
    dropped_samples: int
    go_backs: int


class Status(NamedTuple):
    """``rest`` is everything else in the record: ring, errors, and what the probe added."""

    host_name: str
    wall: float
    sets: dict[int, SetStatus]
    rest: dict[str, Any]


def row(window: SendWindow) -> SetStatus:
    """The row of one resource set as its send window has it now."""
    return SetStatus(
        window.epoch,
        window.made,
        window.last,
        window.floor,
        window.acked,
        window.acked_id.decode("ascii", "replace"),
        window.acked_made,
        window.applied,
        window.resent,
        window.dropped_frames,
        window.dropped_samples,
        window.go_backs,
    )


def encode(host_name: str, wall: float, windows: Iterable[SendWindow], rest: dict[str, Any]) -> bytes:
    """The bytes of a record; keys of ``rest`` never hide the record's own."""
    document = {
        **rest,
        "format": FORMAT,
        "host": host_name,
        "wall": wall,
        "fields": SetStatus._fields,
        "sets": {f"{window.resource_set:08x}": row(window) for window in windows},
    }
    return _ENCODER.encode(document).encode()


def decode(data: bytes) -> Status:
    """The record in ``data``. Raises FrameError("payload") when it is none."""
    try:
        document: dict[str, Any] = json.loads(data)
        if document.pop("format") != FORMAT:
            raise ValueError("of another format")
        fields = document.pop("fields")
        sets = {}
        for key, values in document.pop("sets").items():
            named = dict(zip(fields, values, strict=True))
            sets[int(key, 16)] = SetStatus(*(_checked(name, named[name]) for name in SetStatus._fields))
        return Status(str(document.pop("host")), float(document.pop("wall")), sets, document)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise FrameError("payload", f"no status record: {error}") from error


def _checked(name: str, value: Any) -> Any:
    if not isinstance(value, str if name == "sent_id" else int):
        raise ValueError(f"{name} is {value!r}")
    return value
