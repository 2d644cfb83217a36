"""Frame numbers in the archive: each counted once, in any order (pure).

A failover repeats frames under new ids, a trim removes some for good, and frames of a minute that is not closed
are only in memory. So the frame's own number counts, by the rule of the outbox (docs/decisions/0010) with one
difference: the filter refuses a frame that comes too early and gets it again, while a reader of the log cannot request
it. It is taken, and the missing frames before it form a *hole*, which is filled or, if nothing can fill it, a gap.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from acquisition.wire.frame import MOST_COUNTED

MOST_HOLES = 64
#: Impossible counts of frames: so many at once, plus so many per second since the last one.
_MOST_AT_ONCE, _MOST_A_SECOND = 10_000, 20


class Span(NamedTuple):
    """Frames ``low`` to ``high``; ``before`` and ``after``: samples made in the epoch before and including them.

    ``since``: when it was noticed, milliseconds of the stream's ids.
    """

    low: int
    high: int
    before: int
    after: int
    since: int = 0

    @property
    def samples(self) -> int:
        """Number of samples in its frames; 0 if a sender's count went back."""
        return max(0, self.after - self.before)


class Numbers:
    """Frames of one (host, resource set, epoch) since the first one seen."""

    def __init__(self, newest: int, made: int, gap: int = 0, holes: Iterable[Span] = (), began: int = 0) -> None:
        self.newest = newest  #: highest number taken; below it everything except the holes was
        self.made = made  #: samples made up to it; -1: not known any more
        self.gap = gap  #: samples that can no longer arrive
        self.holes: list[Span] = list(holes)
        self.began = began  #: samples made before the first frame seen

    @classmethod
    def before(cls, sequence: int, made: int) -> Numbers:
        """No numbers yet; this frame, with ``made`` samples made before it, will be the first."""
        return cls(sequence - 1, made, began=made)

    @classmethod
    def resumed(cls, newest: int) -> Numbers:
        """Frames up to this one were taken long ago, and the database has no details of them."""
        return cls(newest, -1, began=-1)

    @property
    def waiting(self) -> int:
        """Samples in the holes: they may still arrive."""
        return sum([hole.samples for hole in self.holes])

    def is_possible(self, sequence: int, seconds: float) -> bool:
        """Whether a sender can have reached this number ``seconds`` after its newest frame."""
        return sequence - self.newest <= _MOST_AT_ONCE + _MOST_A_SECOND * max(0.0, seconds)

    def take(self, sequence: int, before: int, samples: int, now: int) -> bool:
        """Record a frame; returns whether it is new. ``before`` is its ``made``."""
        if self.made < 0 and sequence > self.newest:
            self.made = self.began = before
        if sequence == self.newest + 1:
            self.lose(max(0, before - self.made))  # a tombstone represents lost samples
            self.newest, self.made = sequence, before + samples
            return True
        if sequence > self.newest:
            self.holes.append(Span(self.newest + 1, sequence - 1, self.made, before, now))
            self.newest, self.made = sequence, before + samples
            return True
        for place, hole in enumerate(self.holes):
            if hole.low <= sequence <= hole.high:
                parts = (
                    hole._replace(high=sequence - 1, after=before),
                    hole._replace(low=sequence + 1, before=before + samples, since=now),  # so that it can be filled
                )
                self.holes[place : place + 1] = [part for part in parts if part.low <= part.high]
                self.lose(sum([part.samples for part in parts if part.low > part.high]))  # a tombstone, as above
                return True
        return False

    def lose(self, samples: int) -> None:
        """Count samples that can no longer arrive, up to a limit, since a sender's counts may leap to any value."""
        self.gap = min(self.gap + samples, MOST_COUNTED)

    def give_up(self, floor: int, noticed_before: int) -> list[Span]:
        """Remove the holes that nothing will fill: frames no longer held by their sender, holes noticed before a time,
        and the oldest of too many. They are counted as gaps."""
        gone = [hole for hole in self.holes if hole.high < floor or hole.since < noticed_before]
        gone += [hole for hole in self.holes if hole not in gone][:-MOST_HOLES]
        if gone:
            self.holes = [hole for hole in self.holes if hole not in gone]
            self.lose(sum([hole.samples for hole in gone]))
        return gone

    def without(self, spans: Iterable[Span]) -> Numbers:
        """State as if these frames were not taken: what is durable while they are only in memory."""
        merged: list[Span] = []
        gap = self.gap
        for span in sorted([*self.holes, *spans]):
            if merged and merged[-1].high + 1 == span.low:
                last = merged[-1]
                gap -= max(0, span.before - last.after)  # lost between them: found again with them
                merged[-1] = Span(last.low, span.high, last.before, span.after, max(last.since, span.since))
            else:
                merged.append(span)
        newest, made = self.newest, self.made
        if merged and merged[-1].high == newest:
            newest, made = merged[-1].low - 1, merged[-1].before
            merged.pop()
        return Numbers(newest, made, gap, merged, self.began)

    def document(self) -> list[Any]:
        """For ``restore``."""
        return [self.newest, self.made, self.gap, [list(hole) for hole in self.holes], self.began]

    @classmethod
    def restore(cls, document: list[Any]) -> Numbers:
        """Restore from a ``document``."""
        newest, made, gap, holes, began = document
        return cls(newest, made, gap, [Span(*hole) for hole in holes], began)


def extend(spans: list[Span], sequence: int, before: int, samples: int, now: int) -> None:
    """Add a frame to the spans of a minute; nothing is lost within a span."""
    last = spans[-1] if spans else None
    if last is not None and last.high + 1 == sequence and last.after == before:
        spans[-1] = Span(last.low, sequence, last.before, before + samples, last.since)
    else:
        spans.append(Span(sequence, sequence, before, before + samples, now))
