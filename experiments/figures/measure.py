"""Measurement of rows: programs in sequence, with references beside them."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from statistics import mean
from typing import Any, NamedTuple

from acquisition.errors import ShardpulseError
from experiments.figures import references
from experiments.figures.kinds import Bare, Figure, Row, find
from experiments.harness import outcome
from experiments.processes.answers import Lacking, ask

_MOST_TOLD = 8  #: of a run's failures
_SHORT_SECONDS, _FULL_SECONDS = 240.0, 2400.0  #: the maximum duration of a command


class Number(NamedTuple):
    """A figure's value, and its reference and the ratio to it, if any."""

    value: float | None
    reference: float | None = None
    ratio: float | None = None


class Measured(NamedTuple):
    """A row's figures in their order; or why it was ``skipped`` (this machine lacks something) or has ``failed``."""

    row: Row
    seconds: float
    numbers: tuple[Number, ...] = ()
    skipped: str = ""
    failed: str = ""


def measure(rows: Sequence[Row], full: bool) -> Iterator[Measured]:
    """Every row as soon as it is measured; rows of one command share one run of it."""
    for number, (_, same) in enumerate(groupby(rows, key=lambda row: (row.program, row.command(full)))):
        yield from _together(list(same), full, number + 1)


def _together(rows: list[Row], full: bool, number: int) -> list[Measured]:
    row, began = rows[0], time.monotonic()
    names = ", ".join(each.name for each in rows)
    print(f"{number}. {names}: experiments.{row.program} {' '.join(row.command(full))}", file=sys.stderr, flush=True)
    bare = {each for one in rows for each in _bare(one)}
    try:
        before = _references(bare)
        answer = ask(row.program, row.command(full), _FULL_SECONDS if full else _SHORT_SECONDS)
        after = _references(bare)
    except Lacking as error:
        return [Measured(each, time.monotonic() - began, skipped=str(error)) for each in rows]
    except (ShardpulseError, OSError) as error:
        return [Measured(each, time.monotonic() - began, failed=str(error)) for each in rows]
    beside = {each: mean((before[each], after[each])) for each in bare}
    return [_read(each, answer, beside, time.monotonic() - began) for each in rows]


def _bare(row: Row) -> Iterator[Bare]:
    return (figure.reference for figure in row.figures if isinstance(figure.reference, Bare))


def _references(bare: Iterable[Bare]) -> dict[Bare, float]:
    found = {key: references.KINDS[key[0]](*key[1:]) for key in {(one.kind, one.entities, one.metrics) for one in bare}}
    return {one: found[one.kind, one.entities, one.metrics][one.field] for one in bare}


def _read(row: Row, answer: dict[str, Any], beside: dict[Bare, float], seconds: float) -> Measured:
    wrong = [reason for name in row.failures.split() for reason in answer.get(name) or ()]
    if wrong:
        return Measured(row, seconds, failed="; ".join(outcome.first(wrong, _MOST_TOLD)))
    return Measured(row, seconds, tuple(read(figure, answer, beside) for figure in row.figures))


def read(figure: Figure, answer: dict[str, Any], beside: dict[Bare, float]) -> Number:
    """A figure of an answer and its ratio to its reference: ``beside``, in the answer, or the figure itself."""
    value = find(answer, figure.path)
    if value is None or figure.reference is None:
        return Number(value)
    if figure.is_ratio:
        return Number(value, None, value)
    if isinstance(figure.reference, Bare):
        reference = beside.get(figure.reference)
    else:
        reference = find(answer, figure.reference.path)
    return Number(value, reference, value / reference if reference else None)
