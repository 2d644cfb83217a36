"""Event fuzzer: mutated event state and events, through services and archive.

They are fields of ``told:{tag}`` and entries of ``events:{tag}``, through the reporting services and the archiver that
reads their events.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from random import Random
from typing import Any

from acquisition.config.decisions import Decisions
from acquisition.link.cluster import Command
from acquisition.link.resp import pack
from acquisition.wire import keys, layout
from acquisition.wire.layout import Layout
from experiments.fuzz.line_oracle import Unsound
from filters.archive.database.records import tables
from filters.archive.following.witness import _happened
from filters.archive.minutes.values import Batch
from filters.decisions.deciding import Decided, decide
from filters.decisions.method import method_of
from filters.decisions.migrations import Log, Migrations
from filters.decisions.picture import CPU, Host, Picture, Reading
from filters.service.ticks.event_recorder import EventRecorder

TOLD, EVENT = "told", "event"
_LAYOUT = Layout()
_NOW = 1_700_000_000.0
_END = b"\0"  #: between name and state, and between the fields of an entry
_HOT_HOST = 10
_BYTES = (
    b"", b"\xff", b"\xed\xa0\x80", b"\xc2\xb2", b"9" * 5000, b"-1", b"hot:", b"hot:no", b"hot:" + b"f" * 17, b"hot:-1",
    b"hot:\xc2\xb2", b"move:", b"move:\xff", b"blind", b"over:hot:", b"1e999", b"nan", b"[]", b"{", b"[" * 5000,
    b'{"a":1e999}', b'{"a":NaN}', b'{"a":"\\ud800"}', b'{"\\ud800":1}', b'{"a":"\\u0000"}',
    b'{"a":' + b"9" * 400 + b"}",
)  # fmt: skip


def _seen(busy: float, blind: str = "") -> Decided:
    """Verdict of the rule on one host."""
    values = (busy,) * 30
    reading = Reading(CPU, busy, 0.01, 0.0, busy, "VALID", 0.5, 0.0, None, values, values, unit="ratio")
    host = Host(f"{_HOT_HOST:016x}", "h", age_seconds=0.5, readings={CPU: reading})
    picture = Picture(1, _NOW, () if blind else (host,), (blind,) if blind else (), blind=blind)
    return decide(picture, method_of(Decisions()), Log(Migrations(), _NOW))


_HOT, _COOL, _BLIND = _seen(0.99), _seen(0.2), _seen(0.0, "no host can be seen")


class _Shards:
    """Shards with one field written in every partition; received commands are encoded as for the wire."""

    def __init__(self, field: Sequence[bytes]) -> None:
        self._replies = {"HGETALL": list(field), "GET": layout.encode(_LAYOUT).encode()}

    def gather(self, commands: Sequence[Command]) -> list[Any]:
        """Replies: the written field if a hash is read, the layout for its copies, 1 for reported events."""
        for _, command in commands:
            pack(command)
        return [self._replies.get(command[0], 1) for _, command in commands]


def make_told(random: Random) -> bytes:
    """A field and its value."""
    name = random.choice((b"hot:%016x" % random.getrandbits(64), b"move:vm", b"blind", b"hot:%016x" % _HOT_HOST))
    return name + _END + b"%d" % random.getrandbits(40)


def make_event(random: Random) -> bytes:
    """The fields of an entry."""
    host = b"" if random.getrandbits(1) else b"%016x" % random.getrandbits(64)
    return _END.join((b"before", b"7", b"kind", b"hot", b"host", host, b"details", b'{"rule":"threshold","since":1.5}'))


def mutate(data: bytes, random: Random) -> bytes:
    """Replace one of the words, or insert something in its middle."""
    words = data.split(_END)
    at = int(random.random() * len(words))
    other = random.choice(_BYTES)
    cut = int(random.random() * (len(words[at]) + 1))
    words[at] = other if random.getrandbits(1) else words[at][:cut] + other + words[at][cut:]
    return _END.join(words[: len(words) - (random.getrandbits(4) == 0)])


def left(tag: str, what: str, data: bytes) -> Command:
    """The command that writes it to the keys of a partition."""
    words = data.split(_END)
    if what == TOLD:
        return keys.told(tag), ("HSET", keys.told(tag), words[0], words[-1])
    return keys.events(tag), ("XADD", keys.events(tag), "*", *words)


def use_told(data: bytes) -> bool:
    """Check that a service that starts, sees a hot host, then a cool one, then none, reports each of them."""
    name, _, state = data.partition(_END)
    recorder, shards = EventRecorder(), _Shards((name, state))
    news = [recorder.record(shards, seen, _NOW + at) for at, seen in enumerate((_COOL, _HOT, _COOL, _BLIND, _COOL))]  # type: ignore[arg-type]
    if not all(news[1:]):
        raise Unsound(f"a field keeps a service from telling what it sees: {news}")
    return news[0] > 0


def use_event(data: bytes) -> bool:
    """Check an event for which the archiver makes rows; False if it makes none."""
    found = _happened((b"1700000000000-0", data.split(_END)))
    if found is None:
        return False
    for row in (row for _, rows in tables(Batch((), events=(found,)), 1) for row in rows):
        *figures, details = row
        if any(isinstance(value, float) and not math.isfinite(value) for value in figures):
            raise Unsound(f"an event with an invalid number: {row}")
        for text in [*figures, *_texts(json.loads(str(details)))]:
            if isinstance(text, str) and not _is_stored(text):
                raise Unsound(f"an event with a text that PostgreSQL refuses: {text[:80]!r}")
    return True


def _texts(value: Any) -> list[Any]:
    """All names and values of a JSON document."""
    if isinstance(value, dict):
        return [*value, *(text for inner in value.values() for text in _texts(inner))]
    return [text for inner in value for text in _texts(inner)] if isinstance(value, list) else [value]


def _is_stored(text: str) -> bool:
    """Whether a text has neither NUL nor half of a surrogate pair."""
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False
