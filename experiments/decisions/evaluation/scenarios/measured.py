"""Measured scenarios: PlanetLab, the recorded hour and Alibaba 2018 machine usage.

Data that are not on this machine make a row void: SHARDPULSE_TRACES is the directory in which they are looked for.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from acquisition.errors import ShardpulseError
from experiments.decisions import recording, traces
from experiments.decisions.evaluation.scenarios.work import Scenario, Size, Void, Work
from experiments.decisions.load import Floats
from experiments.decisions.noise import Noise, autoregressive
from experiments.harness import outcome

_VARIABLE = "SHARDPULSE_TRACES"
_NOISE = Noise(deviation=0.05)


def _there(name: str) -> Path:
    directory = os.environ.get(_VARIABLE, "")
    path = Path(directory) / name
    if not directory or not path.exists():
        raise Void(f"{name} is not there: set {_VARIABLE} to its directory")
    return path


@functools.cache
def _planetlab() -> Floats:
    days = traces.read_days(_there("planetlab-20110303.tar.xz"))
    return np.hstack([day.percent.T for day in days])


@functools.cache
def _alibaba() -> Floats:
    """Columns of machine_usage.csv: machine, time stamp (s), CPU in percent; of machines that are there throughout."""
    path = _there("machine_usage.csv")
    table = np.genfromtxt(path, delimiter=",", usecols=(1, 2), max_rows=2_000_000)
    names = np.loadtxt(path, delimiter=",", usecols=0, dtype=str, max_rows=2_000_000)
    found = [table[names == name] for name in np.unique(names)]
    length = max(map(len, found)) // 2
    return np.stack([each[np.argsort(each[:, 0])][:length, 1] for each in found if len(each) >= length], 1)


def _means(read: Callable[[], Floats], interval: int, mean: float, vms: int) -> Callable[..., Work]:
    """Work whose level follows means over ``interval`` of ``vms`` traces per host, brought to ``mean``."""

    def build(draw: np.random.Generator, size: Size) -> Work:
        try:
            values = read()
        except ShardpulseError as error:
            raise Void(str(error)) from error
        count = size.seconds // interval + 2
        start = int(draw.integers(max(1, len(values) - count)))
        rows = (start + np.arange(count)) % len(values)
        picked = values[rows][:, draw.integers(values.shape[1], size=(size.hosts * vms))]
        level = picked.reshape(count, size.hosts, vms).mean(2)
        level *= mean / max(float(level.mean()), 1e-6)
        at = np.arange(size.seconds)[:, None] + draw.integers(interval, size=size.hosts)
        spread = level[at // interval, np.arange(size.hosts)] + autoregressive(draw, size.seconds, size.hosts, _NOISE)
        spread = np.maximum(spread, 0.0).astype(np.float32)
        return Work(spread, np.zeros_like(spread))

    return build


def _recorded(draw: np.random.Generator, size: Size) -> Work:
    """Hosts play the slots of the recorded hour, each from a random second on, brought to 0.6 on average."""
    found = recording.read(outcome.RESULTS / "recorded-hour.csv")
    length, slots = found.slots.shape
    wanted = np.zeros((size.seconds, size.hosts), np.float32)
    for _ in range(size.vms):
        at = (np.arange(size.seconds)[:, None] + draw.integers(length, size=size.hosts)) % length
        wanted += found.slots[at, draw.integers(slots, size=size.hosts)]
    wanted *= np.float32(0.6 / float(wanted.mean()))
    return Work(wanted, np.zeros_like(wanted))


SCENARIOS: tuple[Scenario, ...] = (
    Scenario("PlanetLab", _means(_planetlab, 300, 0.6, 15)),
    Scenario("recorded hour", _recorded),
    *(Scenario(f"Alibaba 2018 at {mean:g}", _means(_alibaba, 10, mean, 1)) for mean in (0.5, 0.7, 0.85)),
)
