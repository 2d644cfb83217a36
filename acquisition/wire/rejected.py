"""Entries rejected by the filter, and size limits for hosts.

The reason is in the stream ``rejected:{tag}``, the bytes, possibly those of any host, in ``refused:{tag}``:
probes read only the first. ``tests/acquisition/wire/test_rejected.py`` contains golden fields and a round trip.

Filters and archivers read the same table of limits (``[filter.limits]``): a frame beyond them is rejected before
any of it is kept. Rates are not limited.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from acquisition.errors import FrameError
from acquisition.wire.frame import HEADER_SIZE, Frame

KEPT = 1000  #: approximate number of entries of a stream
SIGNATURE = "signature"  #: reason for a frame not signed by its host (acquisition.wire.signature)
LIMIT = "limit"  #: reason for a frame by which its host would exceed a limit
_MOST_BYTES = 4096


class Rejected(NamedTuple):
    """``entry`` is its id in the raw stream, ``reason`` that of a FrameError, ``message`` the text for people."""

    entry: bytes
    reason: str
    message: str


def encode(rejected: Rejected) -> tuple[bytes | str, ...]:
    """Fields of a stream entry, names and values in turn."""
    entry, reason, message = rejected
    return "entry", entry, "reason", reason, "message", message


def encode_bytes(entry: bytes, fields: Sequence[object] | None) -> tuple[bytes | str, ...]:
    """The same for the stream of bytes: the fields of the raw entry, joined by blanks and cut."""
    joined = b" ".join(field if isinstance(field, bytes) else str(field).encode() for field in fields or ())
    return "entry", entry, "data", joined[:_MOST_BYTES]


def decode(fields: Sequence[bytes]) -> Rejected:
    """Rejection in the fields of a stream entry; the message may be absent. Raises FrameError if they were not
    written by a filter."""
    try:
        named = dict(zip(fields[::2], fields[1::2], strict=True))
        entry, reason = named[b"entry"], named[b"reason"].decode(errors="replace")
        return Rejected(entry, reason, named.get(b"message", b"").decode(errors="replace"))
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise FrameError("payload", f"not a rejected entry: {error!r}") from error


class Limits(NamedTuple):
    """Limits per host; bytes are those of an encoded frame, and of a text in a table's JSON."""

    resource_sets: int = 64
    entities: int = 10_000  #: for all its resource sets together
    metrics: int = 256  #: for one resource set
    frame_bytes: int = 4 << 20
    name_bytes: int = 4096


class LimitError(FrameError):
    """A frame by which its ``host`` would exceed a limit."""

    def __init__(self, host: int, found: str, limit: int, key: str) -> None:
        super().__init__(LIMIT, f"host {host:016x} has {found}, the limit is {limit} ([filter.limits] {key})")
        self.host = host


class HostSizes:
    """Sizes of each host: the entities of each of its resource sets in the newest accepted frame."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._hosts: dict[int, dict[int, int]] = {}

    def __len__(self) -> int:
        return len(self._hosts)

    def add(self, host: int, resource_set: int) -> None:
        """Add a new resource set. Raises LimitError."""
        known = self._hosts.get(host, {})
        if len(known) >= self._limits.resource_sets and resource_set not in known:
            raise LimitError(
                host, f"one more resource set ({resource_set:08x})", self._limits.resource_sets, "resource_sets"
            )
        self._hosts.setdefault(host, known).setdefault(resource_set, 0)

    def remove(self, host: int, resource_set: int) -> None:
        """Forget a resource set."""
        known = self._hosts.get(host, {})
        known.pop(resource_set, None)
        if not known:
            self._hosts.pop(host, None)

    def note(self, host: int, resource_set: int, entities: int) -> None:
        """Note the number of entities accepted for a set."""
        self._hosts.setdefault(host, {})[resource_set] = entities

    def check(self, frame: Frame) -> None:
        """Accept the sizes of a frame of an added set. Raises LimitError."""
        limits, host = self._limits, frame.host
        size = HEADER_SIZE + len(frame.ids) + len(frame.values) + len(frame.codes) + len(frame.payload)
        if size > limits.frame_bytes:
            raise LimitError(host, f"a frame of {size} bytes", limits.frame_bytes, "frame_bytes")
        if frame.metrics > limits.metrics:
            raise LimitError(host, f"{frame.metrics} metrics", limits.metrics, "metrics")
        if frame.payload:
            self._check_texts(host, frame.payload)
        if frame.entities:
            known = self._hosts.get(host, {})
            entities = sum(known.values()) - known.get(frame.resource_set, 0) + frame.entities
            if entities > limits.entities:
                raise LimitError(host, f"{entities} entities", limits.entities, "entities")
            self.note(host, frame.resource_set, frame.entities)

    def check_table(self, host: int, metrics: int, entities: int) -> None:
        """Raise LimitError for a table with too many of either."""
        if metrics > self._limits.metrics:
            raise LimitError(host, f"{metrics} metrics", self._limits.metrics, "metrics")
        if entities > self._limits.entities:
            raise LimitError(host, f"names of {entities} entities", self._limits.entities, "entities")

    def _check_texts(self, host: int, payload: bytes) -> None:
        """Check the texts between two quotation marks of JSON; an escaped mark does not end a text."""
        longest = max(map(len, payload.replace(rb"\"", b"__").split(b'"')))
        if longest > self._limits.name_bytes:
            raise LimitError(host, f"a name of {longest} bytes", self._limits.name_bytes, "name_bytes")
