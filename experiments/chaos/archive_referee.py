"""Archive referee: compares the database's minutes with the logs.

Each sample must be stored once.

The expected content of a cell (host, minute, entity, metric) is computed from the logs in doubles, straight from the
definitions: number of samples, number of valid ones, and of these mean, deviation, minimum and maximum. Minutes in
which a host's clock was so far off that the archive may refuse its frames, or may have compacted them, are not
compared, only counted. Missing samples may not exceed those in the archive's own events and counts; samples trimmed by
a full shard are counted as a gap once later frames have shown that they will not come.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from sqlalchemy import text

from acquisition.model.codes import CODE_MASK, VALID
from acquisition.model.ticks import tick_of
from acquisition.snapshot.reconcile.registered import Registered
from experiments.chaos.host_log import Note
from experiments.chaos.load import Load
from experiments.emulation.workload import host_number
from filters.archive.database import records, writing
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.following.partition import CLOCK
from filters.archive.minutes.values import MINUTE, MinuteMatrix, Statistic

Doubles = npt.NDArray[np.float64]

_BACK, _AHEAD = -5400.0, 240.0  #: seconds by which a clock may be off for its minutes to be compared
_RELATIVE, _ABSOLUTE = 1e-4, 1e-3
_MOST_EXAMPLES = 20
_COMPARED = (Statistic.MEAN, Statistic.DEVIATION, Statistic.LOW, Statistic.HIGH)


class Verdict(NamedTuple):
    """``cells`` were compared, of ``samples``; ``missing`` of these are not stored; ``gap`` is the number that the
    archive reports as missing, without clocks that were far off."""

    cells: int
    samples: int
    left_out: int  #: samples of minutes that were not compared
    missing: int
    gap: int
    problems: tuple[str, ...]


class _Archived(NamedTuple):
    """``minutes`` by host and minute; ``gap`` samples are reported as missing, without those of wrong clocks; ``cuts``
    is how often a full shard has trimmed unread entries."""

    minutes: Mapping[tuple[int, int], MinuteMatrix]
    gap: int
    cuts: int


def judge(load: Load, logs: Mapping[int, Sequence[Note]], offset: float, url: str, books: Registered) -> Verdict:
    """Compare the database at ``url`` with the logs; ``offset`` is wall clock less CLOCK_MONOTONIC, in seconds."""
    found = _read(url, load)
    made = sum(note.samples for notes in logs.values() for note in notes)
    problems = []
    waiting = made - books.archived - books.gap  # in holes, which no later frame has closed
    if waiting < 0 or books.open or (waiting and not found.cuts):
        told = f"{books.archived} archived, {books.gap} gaps, {books.open} open"
        problems.append(f"{made} samples were made; the archive's books say {told}")
    cells = samples = left_out = missing = 0
    for host, notes in sorted(logs.items()):
        for minute, here in _by_minute(load, notes):
            count = sum(note.samples for note in here)
            if not all(_BACK < note.wall - note.monotonic - offset < _AHEAD for note in here):
                left_out += count
                continue
            wanted_ids, wanted = expected(load, host, here)
            matrix = found.minutes.get((host_number(host), minute))
            lost, wrong = compare(wanted_ids, wanted, matrix)
            cells, samples, missing = cells + wanted[0].size, samples + count, missing + lost
            problems += [f"host {host}, minute {minute}: {each}" for each in wrong]
    explained = found.gap + max(0, waiting if found.cuts else 0)
    if missing > explained:
        problems.append(f"{missing} samples are not in the archive, {explained} by its own account")
    if len(problems) > _MOST_EXAMPLES:
        problems[_MOST_EXAMPLES:] = [f"and {len(problems) - _MOST_EXAMPLES} more"]
    return Verdict(cells, samples, left_out, missing, explained, (*problems,))


def expected(load: Load, host: int, notes: Sequence[Note]) -> tuple[npt.NDArray[np.uint64], Doubles]:
    """Ids in ascending order, and (statistics, entities, metrics) of the frames of a minute."""
    parts = []
    for note in notes:
        rows = load.rows(host, note.number)
        values, codes = load.arrays_of(host, note.number, len(rows))
        valid = (codes & CODE_MASK) == VALID
        parts.append((np.frombuffer(load.ids(host, rows), "<u8"), np.where(valid, values, np.nan).astype(np.float64)))
    ids = np.unique(np.concatenate([part[0] for part in parts]))
    cube = np.full((len(parts), len(ids), load.metrics), np.nan)
    there = np.zeros((len(parts), len(ids)))
    for place, (here, figures) in enumerate(parts):
        at = np.searchsorted(ids, here)
        cube[place, at], there[place, at] = figures, 1
    number = (~np.isnan(cube)).sum(0)
    planes = np.full((len(Statistic), len(ids), load.metrics), np.nan)
    planes[Statistic.COUNT] = there.sum(0)[:, None]
    planes[Statistic.VALID] = number
    some = number > 0
    with np.errstate(all="ignore"):
        mean = np.nansum(cube, 0) / number
        planes[Statistic.MEAN] = mean
        planes[Statistic.DEVIATION] = np.sqrt(np.nansum((cube - mean) ** 2, 0) / number)
    planes[Statistic.LOW] = np.where(some, np.nanmin(np.where(np.isnan(cube), np.inf, cube), 0), np.nan)
    planes[Statistic.HIGH] = np.where(some, np.nanmax(np.where(np.isnan(cube), -np.inf, cube), 0), np.nan)
    planes[Statistic.DEVIATION][~some] = np.nan
    return ids, planes


def compare(ids: npt.NDArray[np.uint64], wanted: Doubles, matrix: MinuteMatrix | None) -> tuple[int, list[str]]:
    """Number of samples missing in a minute, and faults of the stored ones."""
    if matrix is None:
        return int(wanted[Statistic.COUNT].sum()), []
    if not np.isin(matrix.ids, ids).all():
        return 0, ["it has entities that were not there"]
    found = np.full(wanted.shape, np.nan)
    found[Statistic.COUNT] = found[Statistic.VALID] = 0
    found[:, np.searchsorted(ids, matrix.ids)] = matrix.values[: len(Statistic)]
    lacking = wanted[Statistic.COUNT] - found[Statistic.COUNT]
    wrong = []
    if (lacking < 0).any():
        wrong.append(f"{int(-lacking[lacking < 0].sum())} samples too many")
    whole = lacking == 0
    if (found[Statistic.VALID] != wanted[Statistic.VALID])[whole].any():
        wrong.append("other numbers of valid samples")
    for statistic in _COMPARED:
        here, there = found[statistic][whole], wanted[statistic][whole]
        if not np.allclose(here, there, _RELATIVE, _ABSOLUTE, equal_nan=True):
            place = int(np.nanargmax(np.abs(here - there)))
            wrong.append(f"{statistic.name.lower()} {here[place]}, not {there[place]}")
    return int(lacking[lacking > 0].sum()), wrong


def _by_minute(load: Load, notes: Iterable[Note]) -> Iterator[tuple[int, list[Note]]]:
    minutes: dict[int, list[Note]] = {}
    for note in notes:
        second = tick_of(note.wall, load.interval) * load.interval
        minutes.setdefault(int(second // MINUTE) * MINUTE, []).append(note)
    yield from sorted(minutes.items())


def _read(url: str, load: Load) -> _Archived:
    engine = make_engine(parse_url(url))
    minutes: dict[tuple[int, int], MinuteMatrix] = {}
    with engine.begin() as connection:
        for row in writing.returned(connection, "minutes", "SELECT * FROM minutes"):
            one = records.minute_of(row)
            if one.series.resource_set == load.set_id:
                minutes[(one.series.host, one.minute)] = one
        events = connection.execute(text("SELECT kind, details FROM events"))
        told = [(kind, json.loads(details)) for kind, details in events]
    engine.dispose()
    gaps = [details for kind, details in told if kind in {"gap", "loss", "shed"}]
    gap = sum(int(details["samples"]) for details in gaps if details.get("reason") != CLOCK)
    return _Archived(minutes, gap, sum(kind == "cut" for kind, _ in told))
