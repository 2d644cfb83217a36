"""From two readings of a counter to a rate: never negative, never guessed.

A counter without a predecessor has no rate (FIRST). One that stepped back a little is
jitter and counts as standing still: the kernel's idle, iowait and steal times do that
(proc(5); node_exporter issues 1686 and 2067). One that stepped back by more was reset, and
the interval has no rate (RESET): wrapping around is never assumed, all counters of
/proc have 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence

from acquisition.model.codes import FIRST, NAN, RESET, VALID


def difference(new: float, old: float, jitter: float = 0.0) -> tuple[float, int]:
    """What a counter grew by, and its validity code.

    ``jitter`` is the backward step, in the counter's unit, that still counts as no growth.
    """
    grown = new - old
    if grown >= 0:
        return grown, VALID
    return (0.0, VALID) if grown >= -jitter else (NAN, RESET)


def rate(new: float, old: float | None, seconds: float, jitter: float = 0.0) -> tuple[float, int]:
    """Growth per second over the measured ``seconds``, and its validity code."""
    if old is None or seconds <= 0:
        return NAN, FIRST
    grown, code = difference(new, old, jitter)
    return grown / seconds, code


def differences(
    new: Sequence[float], old: Sequence[float], jitter: float = 0.0
) -> tuple[Sequence[float], Sequence[int] | None]:
    """``difference`` of each pair; no codes (None) when all are valid, which is nearly always."""
    grown = [a - b for a, b in zip(new, old, strict=True)]
    if min(grown) >= 0:
        return grown, None
    pairs = [difference(a, b, jitter) for a, b in zip(new, old, strict=True)]
    return [growth for growth, _ in pairs], [code for _, code in pairs]
