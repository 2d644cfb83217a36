"""Runner of points, kept in a CSV file so that interrupted runs resume."""

from __future__ import annotations

import csv
import hashlib
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from acquisition.errors import ShardpulseError
from experiments.harness import machine
from experiments.paper.figure import Extent, Figure, Point, Record, Records, Row

_LEADING = ("figure", "point")


class Measured(NamedTuple):
    """Records by the name of their point, and the reason for each failed point."""

    records: dict[str, list[Record]]
    failures: list[str]

    def of(self, points: Iterable[Point]) -> Records:
        """The records of a figure."""
        return Records([record for point in points for record in self.records.get(point.name, ())])


def points_of(figures: Sequence[Figure], extent: Extent) -> list[Point]:
    """The points of all figures, each once."""
    return list({point.name: point for figure in figures for point in figure.points(extent)}.values())


def kept_in(directory: Path, extent: Extent) -> Path:
    """File of the points for this commit and these options."""
    key = hashlib.sha256(repr((machine.state(), *extent)).encode()).hexdigest()[:12]
    return directory / "points" / key


def measure(points: Sequence[Point], extent: Extent, kept: Path) -> Measured:
    """Measure the points not yet in ``kept``."""
    kept.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Record]] = {}
    for point in points:
        if (path := kept / f"{point.name}.csv").exists():
            found[point.name] = list(_read(path))
    missing = [point for point in points if point.name not in found]
    if found:
        _tell(f"{len(found)} of {len(points)} points were measured before")
    failures = []
    for number, point in enumerate(missing):
        left = sum(each.estimate(extent) for each in missing[number:])
        _tell(f"point {len(points) - len(missing) + number + 1} of {len(points)}: {point.name}, {_minutes(left)} left")
        began = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="shardpulse-paper-") as name:
                rows = point.measure(extent, Path(name))
        except ShardpulseError as error:
            failures.append(f"{point.name}: {error}")
            _tell(f"  failed: {error}")
            continue
        found[point.name] = [Record(point.name, point.parameters, row) for row in rows]
        write(kept / f"{point.name}.csv", {"": found[point.name]})
        _tell(f"  {len(rows)} rows in {time.monotonic() - began:.0f} s")
    return Measured(found, failures)


def write(path: Path, records: Mapping[str, Sequence[Record]]) -> None:
    """Write records by figure as CSV, in one step: a file is complete or absent."""
    names = list(dict.fromkeys(name for each in records.values() for record in each for name in record.parameters))
    part = path.with_suffix(".part")
    with part.open("w", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow([*_LEADING, *names, *Row._fields])
        for figure, each in records.items():
            for point, parameters, row in each:
                lines.writerow([figure, point, *(parameters.get(name, "") for name in names), *row])
    part.rename(path)


def _read(path: Path) -> Iterator[Record]:
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            words = line["system"], line["role"], line["quantity"], line["unit"]
            row = Row(*words, float(line["at"]), float(line["value"]))
            known = {*_LEADING, *Row._fields}
            parameters = {name: float(text) for name, text in line.items() if name not in known and text}
            yield Record(line["point"], parameters, row)


def _minutes(seconds: float) -> str:
    return f"about {seconds / 60:.0f} min" if seconds >= 90 else f"about {seconds:.0f} s"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
