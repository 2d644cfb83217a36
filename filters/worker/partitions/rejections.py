"""Rejections of a partition: counted, kept with reasons, recorded as events.

Only those with a known host become events.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from acquisition.errors import FrameError
from acquisition.link import happenings
from acquisition.link.resp import pack
from acquisition.wire import keys, rejected
from acquisition.wire.rejected import LimitError, Rejected
from acquisition.wire.signature import SignatureError

_MINUTE = 60.0
#: Maximum of hosts per partition named in events per minute: a forger may name any, and other events must be kept.
_MOST_HOSTS = 20


def unforeseen(error: Exception) -> FrameError:
    """An error with reason ``internal`` that names the exception, and its place."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" in {each.name} ({each.filename.rpartition('/')[2]}:{each.lineno})" for each in where)
    return FrameError("internal", f"{type(error).__name__}: {error!s:.200}{place}; please report it")


class News(NamedTuple):
    """Number of rejected entries, and by reason the newest one and its text."""

    entries: int
    reasons: dict[str, tuple[str, str]]


class Rejections:
    """Rejections of one partition; ``count`` covers all filters that have held it; ``reported``: those already
    returned by ``news``."""

    def __init__(self, tag: str) -> None:
        self.count = self.reported = 0
        self._tag = tag
        self._reasons: dict[str, tuple[str, str]] = {}
        self._until = 0.0
        self._named: set[tuple[str, int]] = set()  #: kinds and hosts of events until then

    def resume(self, count: int) -> None:
        """Continue after a commit with this count."""
        self.count = self.reported = count

    def add(self, entry: bytes, error: FrameError, fields: Sequence[Any], now: float) -> list[bytes]:
        """Reject a stream entry; returns the packed commands that record it. ``now`` is monotonic."""
        self.count += 1
        self._reasons[error.reason] = (entry.decode(), f"{error.reason}: {error}")
        said = rejected.encode(Rejected(entry, error.reason, str(error)))
        rows = (keys.rejected(self._tag), said), (keys.refused(self._tag), rejected.encode_bytes(entry, fields))
        commands = [pack(("XADD", name, "MAXLEN", "~", str(rejected.KEPT), "*", *row)) for name, row in rows]
        if isinstance(error, SignatureError | LimitError):
            details = {"reason": str(error), "entry": entry.decode(errors="replace")}
            commands += self.tell(error.reason, error.host, details, now)
        return commands

    def tell(self, kind: str, host: int, details: Mapping[str, str], now: float) -> list[bytes]:
        """Packed commands of one event per kind, host and minute, however often it occurs."""
        if now >= self._until:
            self._until = now + _MINUTE
            self._named.clear()
        if (kind, host) in self._named or len(self._named) >= _MOST_HOSTS:
            return []
        self._named.add((kind, host))
        return [pack(command) for _, command in happenings.appended(self._tag, kind, details, f"{host:016x}")]

    def news(self) -> News:
        """Rejections since the last call."""
        found = News(self.count - self.reported, self._reasons)
        self.reported, self._reasons = self.count, {}
        return found
