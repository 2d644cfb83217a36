"""Measured scenarios: PlanetLab, the recorded hour and Alibaba 2018 machine usage.

A row is void if its data are not on this machine. SHARDPULSE_TRACES is the directory of ``planetlab-*.tar.xz`` (days
with one file per VM, one percentage per line) and ``machine_usage.csv``.
"""

from __future__ import annotations

import functools
import os
import tarfile
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import numpy as np

from experiments.decisions.scenarios.work import Scenario, Size, Void, Work, autoregressive
from experiments.harness import outcome
from experiments.simulation.arrays import Floats

VARIABLE = "SHARDPULSE_TRACES"
_MOST_ROWS = 2_000_000  #: of machine_usage.csv: some thirty machines over eight days
_STEP = 10  #: seconds


def _there(pattern: str) -> Path:
    directory = os.environ.get(VARIABLE, "")
    found = sorted(Path(directory).glob(pattern)) if directory else []
    if not found:
        raise Void(f"{pattern} is not there: set {VARIABLE} to its directory")
    return found[0]


@functools.cache
def _planetlab() -> Floats:
    """Percentages (T, VMs), five-minute means."""
    with tarfile.open(_there("planetlab-*.tar.xz")) as archive:
        files = [archive.extractfile(member) for member in archive if member.isfile()]
        columns = [np.array(file.read().split(), np.float32) for file in files if file is not None]
    length = min(map(len, columns))
    return np.stack([column[:length] for column in columns], 1)


@functools.cache
def _alibaba() -> Floats:
    """Percentages (T, machines) every 10 s of machines present most of the time, each value held until the next one;
    columns: machine, seconds, CPU."""
    rows: dict[str, list[tuple[int, float]]] = {}
    with _there("machine_usage.csv").open() as file:
        for line in islice(file, _MOST_ROWS):
            machine, second, cpu = line.split(",")[:3]
            if cpu:
                rows.setdefault(machine, []).append((int(second), float(cpu)))
    known = [np.array(sorted(each)) for each in rows.values()]
    longest = max(len(each) for each in known)
    known = [each for each in known if len(each) > longest / 2]
    first, last = max(each[0, 0] for each in known), min(each[-1, 0] for each in known)
    grid = np.arange(first, last, _STEP)
    held = [each[np.searchsorted(each[:, 0], grid, "right") - 1, 1] for each in known]
    return np.stack(held, 1).astype(np.float32)


def _means(read: Callable[[], Floats], interval: int, mean: float, vms: int) -> Callable[..., Work]:
    """Work at the level of means over ``interval`` of ``vms`` traces per host, scaled to ``mean``."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        values = read()
        count = size.seconds // interval + 2
        start = int(draw.integers(max(1, len(values) - count)))
        rows = (start + np.arange(count)) % len(values)
        picked = values[rows][:, draw.integers(values.shape[1], size=(size.hosts * vms))]
        level = picked.reshape(count, size.hosts, vms).mean(2)
        level *= mean / max(float(level.mean()), 1e-6)
        at = np.arange(size.seconds)[:, None] + draw.integers(interval, size=size.hosts)
        spread = level[at // interval, np.arange(size.hosts)] + autoregressive(draw, size, 0.05, 0.5)
        spread = np.maximum(spread, 0.0).astype(np.float32)
        return Work(spread, np.zeros_like(spread))

    return build


@functools.cache
def _hour() -> Floats:
    """CPU (T, slots) of the programs of the recorded hour, in cores."""
    lines = (outcome.RESULTS / "recorded-hour.csv").read_text().splitlines()
    rows = [line.split(",")[3:] for line in lines if line[:1].isdigit()]
    return np.array(rows, np.float32)


def _recorded(draw: np.random.Generator, size: Size) -> Work:
    """Guests replay the slots of the recorded hour, each from a random second; hosts average 0.6."""
    played = _hour()
    length, slots = played.shape
    wanted = np.zeros((size.seconds, size.hosts), np.float32)
    for _ in range(size.vms):
        at = (np.arange(size.seconds)[:, None] + draw.integers(length, size=size.hosts)) % length
        wanted += played[at, draw.integers(slots, size=size.hosts)]
    wanted *= np.float32(0.6 / float(wanted.mean()))
    return Work(wanted, np.zeros_like(wanted))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("PlanetLab at 0.6", _means(_planetlab, 300, 0.6, 15)),
    Scenario("recorded hour", _recorded, pressure=False),
    *(
        Scenario(f"Alibaba 2018 at {mean:g}", _means(_alibaba, _STEP, mean, 1), pressure=mean < 0.8)
        for mean in (0.5, 0.7, 0.85)
    ),
)
