"""Traces of real load: five-minute CPU percentages of VMs (PlanetLab, CoMon).

There is one file per VM.

What is real is each VM's mean of every five minutes, and so the mix, the daily course and which VMs rise
together. Everything below five minutes is synthetic: a VM changes from one mean to the next at a random
second within the five minutes around the boundary, and noise and spikes are those of the synthetic scenarios.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from acquisition.errors import DataError, NoInputError
from experiments.decisions.load import Floats, Load
from experiments.decisions.noise import Noise
from experiments.decisions.synthetic import BASE, Size, assemble

INTERVAL = 300  #: seconds between two values of a trace
_LEAST = 13  #: values that an hour needs


class Day(NamedTuple):
    """``percent`` (VMs, values), 0 to 100 of each VM's own CPU."""

    name: str
    percent: Floats


def read_days(path: Path) -> list[Day]:
    """The days in ``path``: a directory of files, a directory of such directories, or a tar archive of either.

    Raises NoInputError where nothing can be read, DataError for a file that is no trace.
    """
    try:
        members = sorted(_archived(path) if path.is_file() else _stored(path))
    except (OSError, tarfile.TarError) as error:
        raise NoInputError(f"{path}: no traces can be read: {error}") from error
    days: dict[str, list[Floats]] = {}
    for name, text in members:
        day = Path(name).parent.name or path.name
        days.setdefault(day, []).append(_values(f"{path}: {name}", text))
    if not days:
        raise NoInputError(f"{path}: there are no traces in it: one file per VM is expected, one percentage per line")
    return [_day(name, traces) for name, traces in sorted(days.items())]


def _stored(path: Path) -> Iterator[tuple[str, bytes]]:
    if not path.is_dir():
        raise FileNotFoundError("there is no such directory or archive")
    for file in path.rglob("*"):
        if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
            yield str(file.relative_to(path)), file.read_bytes()


def _archived(path: Path) -> Iterator[tuple[str, bytes]]:
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.isfile() else None
            if content is not None:
                yield member.name, content.read()


def _values(name: str, text: bytes) -> Floats:
    words = text.split()
    try:
        values = np.array([float(word) for word in words], np.float32)
    except ValueError as error:
        raise DataError(f"{name}: not a trace: {error}") from error
    if len(values) < _LEAST:
        raise DataError(f"{name}: {len(values)} values, an hour of five-minute means needs {_LEAST}")
    wrong = np.flatnonzero(~((values >= 0.0) & (values <= 100.0)))
    if len(wrong):
        raise DataError(f"{name}: value {wrong[0] + 1} is {values[wrong[0]]:g}, no percentage from 0 to 100")
    return values


def _day(name: str, traces: list[Floats]) -> Day:
    length = min(map(len, traces))
    return Day(name, np.stack([trace[:length] for trace in traces]))


def build(day: Day, seed: int, size: Size, noise: Noise | None = None) -> Load:
    """An hour of a day at a random time of it. VMs are traces of the day, each of them as often as any other;
    hosts are as large as it takes to be at 0.6 on the average of the hour."""
    generator = np.random.default_rng([seed, sum(day.name.encode())])
    vms = size.hosts * size.vms
    columns = size.ticks // INTERVAL + 2
    start = int(generator.integers(max(1, day.percent.shape[1] - columns)))
    times = (start + np.arange(columns)) % day.percent.shape[1]
    order = np.concatenate([generator.permutation(len(day.percent)) for _ in range(vms // len(day.percent) + 1)])
    means = day.percent[order[:vms]][:, times]
    level = _seconds(means, size.ticks, generator)
    total = float(level.sum(dtype=np.float64)) / (size.ticks * size.hosts)
    if total <= 0.0:
        raise DataError(f"day {day.name}: all VMs are idle in this hour: no load can be made of it")
    level *= np.float32(BASE / total)
    return assemble(f"day {day.name}", level, generator, size, noise or Noise())


def _seconds(means: Floats, ticks: int, generator: np.random.Generator) -> Floats:
    """Each VM's means as steps at random seconds around the boundaries: (ticks, VMs)."""
    vms, columns = means.shape
    shift = generator.integers(-INTERVAL // 2, INTERVAL // 2, (columns, vms))
    begins = np.arange(columns)[:, None] * INTERVAL + shift - shift.min()
    level = np.empty((ticks, vms), np.float32)
    seconds = np.arange(ticks)
    for vm in range(vms):
        at = np.searchsorted(begins[:, vm], seconds, side="right") - 1
        level[:, vm] = means[vm, np.clip(at, 0, columns - 1)]
    return level
