"""Judgement of figures: better, same or worse than the committed ratios."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from experiments.figures.kinds import MORE, Figure
from experiments.figures.measure import Measured, Number

WORSE_FROM = 1.25
BETTER, SAME, WORSE, FAILED = "better", "same", "worse", "failed"
SKIPPED, NEW, SHOWN, NOT_MEASURED = "skipped", "new", "shown", "not measured"
_WRONG = (WORSE, FAILED)


class Line(NamedTuple):
    """One figure of one row beside the committed one; ``times`` is how many times worse it is (below 1: better)."""

    row: str
    shown: str
    ratio: float | None
    committed: float | None
    times: float | None
    verdict: str
    note: str = ""

    @property
    def wrong(self) -> bool:
        """Whether it makes the run fail."""
        return self.verdict in _WRONG


def judge(measured: Measured, committed: Sequence[Number]) -> list[Line]:
    """The lines of a row; ``committed`` are its earlier figures, in their order, or none."""
    row = measured.row
    if measured.skipped or measured.failed:
        verdict = SKIPPED if measured.skipped else FAILED
        return [Line(row.name, "", None, None, None, verdict, measured.skipped or measured.failed)]
    before = [*committed, *[Number(None)] * (len(row.figures) - len(committed))]
    return [_line(row.name, *each) for each in zip(row.figures, measured.numbers, before, strict=True)]


def _line(row: str, figure: Figure, now: Number, before: Number) -> Line:
    note = f"to {figure.reference.what}" if figure.reference else ""
    if now.value is None:
        return Line(row, "", None, before.ratio, None, NOT_MEASURED, f"the answer has no {figure.path}")
    shown = figure.show.format(now.value * figure.scale).replace("**", "")
    if figure.reference is None:
        return Line(row, shown, None, None, None, SHOWN)
    if now.ratio is None or before.ratio is None:
        return Line(row, shown, now.ratio, before.ratio, None, NEW if now.ratio is not None else NOT_MEASURED, note)
    times = compare(now.ratio, before.ratio, figure.better == MORE)
    return Line(row, shown, now.ratio, before.ratio, times, verdict_of(times), note)


def compare(now: float, before: float, more_is_better: bool) -> float:
    """How many times worse ``now`` is than ``before``; below 1 it is better."""
    good, bad = (now, before) if more_is_better else (before, now)
    return bad / good if good > 0 else float("inf")


def verdict_of(times: float) -> str:
    """Verdict for a factor: less than a quarter in either direction is the same."""
    return WORSE if times > WORSE_FROM else BETTER if times < 1 / WORSE_FROM else SAME


def worst(lines: Sequence[Line]) -> float:
    """Factor of the worst of some figures; a failure is worse than all."""
    return max((float("inf") if line.verdict == FAILED else line.times or 0.0 for line in lines), default=0.0)
