"""Episodes of invalid samples of one resource set of one host (pure).

An episode is a run of invalid samples of one metric of one entity with one code. Its first sample opens it, it
continues while the next one comes within 60 s, and it is split at midnight UTC, so that retention can drop whole days.
Samples are processed in closed minutes, so that a minute read again after a crash is rewritten as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from filters.archive.minutes.escape import escape, unescape
from filters.archive.minutes.values import DAY, Copy, Episode

QUIET_SECONDS = 60.0  #: without an invalid sample, after which the episode is over
COPIES = 20  #: raw values kept of an episode
MOST_OPENED = 1000  #: per host and minute, all its resource sets together


class Invalid(NamedTuple):
    """Consecutive invalid samples of a metric of ``entity`` within a minute, with one code; ``start`` and
    ``end``: beginning of the first and the last tick, seconds since 1970; ``copies``: some of the first samples."""

    start: float
    end: float
    entity: int
    metric: str
    code: int
    samples: int
    copies: tuple[Copy, ...]


class Told(NamedTuple):
    """Changes of a minute, the number of samples that opened no episode because there were too many, and the number of
    opened episodes."""

    episodes: list[Episode]
    left_out: int
    opened: int


class _Open:
    """An episode that may continue."""

    __slots__ = ("code", "copies", "end", "samples", "start")

    def __init__(self, code: int, start: float, end: float, samples: int, copies: list[Copy]) -> None:
        self.code, self.start, self.end, self.samples, self.copies = code, start, end, samples, copies

    def add(self, found: Invalid) -> None:
        self.end = max(self.end, found.end)
        self.samples += found.samples
        self.copies += found.copies[: COPIES - len(self.copies)]

    def goes_on(self, found: Invalid) -> bool:
        same_day = found.start // DAY == self.start // DAY
        return found.code == self.code and same_day and found.start - self.end <= QUIET_SECONDS


class Episodes:
    """The open episodes of one resource set of one host, by entity and metric."""

    def __init__(self, host: int, resource_set: int) -> None:
        self._host, self._set = host, resource_set
        self._open: dict[tuple[int, str], _Open] = {}

    def __len__(self) -> int:
        return len(self._open)

    def tell(self, invalid: Iterable[Invalid], until: float, most: int = MOST_OPENED) -> Told:
        """Take the invalid samples of a minute that ended at ``until``, ordered by ``start``; returns the changes."""
        touched: dict[tuple[int, str], _Open] = {}
        closed: list[Episode] = []
        opened = left_out = 0
        for found in invalid:
            key = (found.entity, found.metric)
            current = self._open.get(key)
            if current is None or not current.goes_on(found):
                if opened >= most:
                    left_out += found.samples
                    continue
                opened += 1
                if current is not None:
                    closed.append(self._row(key, current, False))
                current = self._open[key] = _Open(found.code, found.start, found.start, 0, [])
            current.add(found)
            touched[key] = current
        for key, current in list(self._open.items()):
            if until - current.end > QUIET_SECONDS:
                closed.append(self._row(key, current, False))
                del self._open[key]
                touched.pop(key, None)
        return Told([*closed, *(self._row(key, one, True) for key, one in touched.items())], left_out, opened)

    def end(self) -> list[Episode]:
        """End all episodes: the set no longer reports."""
        rows = [self._row(key, one, False) for key, one in self._open.items()]
        self._open.clear()
        return rows

    def _row(self, key: tuple[int, str], one: _Open, is_open: bool) -> Episode:
        entity, metric = key
        return Episode(
            self._host, self._set, entity, metric, one.code, one.start, one.end, one.samples, is_open, (*one.copies,)
        )

    def document(self) -> list[Any]:
        """For ``restore``."""
        return [[entity, escape(metric), one.code, one.start, one.end, one.samples, one.copies]
                for (entity, metric), one in self._open.items()]  # fmt: skip

    def restore(self, document: list[Any]) -> None:
        """Continue from a ``document``."""
        for entity, metric, code, start, end, samples, copies in document:
            self._open[(entity, unescape(metric))] = _Open(code, start, end, samples, [Copy(*copy) for copy in copies])
