"""Recording of an hour of real programs at 1 Hz, and load made from it.

The file is text: ``# name: value`` lines, a header ``second,busy,valid,slot_1,...`` and one line per second.
``busy`` is the host's CPU (1 - idle - iowait), ``valid`` 0 where the probe's checks flagged it, ``slot_N`` the
CPU in cores of the program that ran in that slot (0: none ran).
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from acquisition.errors import DataError, NoInputError
from experiments.decisions.faults import without_faults
from experiments.decisions.load import Bools, Floats, Ints, Load, measured, memory_of, per_host
from experiments.decisions.synthetic import BASE, BEFORE, Size

_SUSTAINED = 21  #: ticks of the running median: what stays for more than ten seconds is sustained


class Recording(NamedTuple):
    """``busy`` and ``valid`` (T,) of the host, ``slots`` (T, slots) in cores; ``facts`` of the file."""

    facts: dict[str, str]
    busy: Floats
    valid: Bools
    slots: Floats


def write(path: Path, recording: Recording) -> None:
    """Write the file."""
    names = ",".join(f"slot_{index + 1}" for index in range(recording.slots.shape[1]))
    lines = [f"# {key}: {value}" for key, value in recording.facts.items()]
    lines.append(f"second,busy,valid,{names}")
    for second, (busy, valid, slots) in enumerate(zip(recording.busy, recording.valid, recording.slots, strict=True)):
        lines.append(f"{second},{busy:.4f},{int(valid)}," + ",".join(f"{value:.3f}" for value in slots))
    path.write_text("\n".join(lines) + "\n")


def read(path: Path) -> Recording:
    """The recording in a file. Raises NoInputError, DataError with the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise NoInputError(f"{path}: cannot be read: {error}") from error
    facts = dict(line[2:].partition(": ")[::2] for line in lines if line.startswith("# "))
    rows = [(at, line.split(",")) for at, line in enumerate(lines, 1) if line and not line.startswith("#")]
    if not rows or rows[0][1][:3] != ["second", "busy", "valid"] or len(rows[0][1]) < 4:
        raise DataError(f"{path}: not a recording: no header second,busy,valid,slot_1,...")
    values = np.array([_row(path, at, row, len(rows[0][1])) for at, row in rows[1:]], np.float32)
    if len(values) < 2:
        raise DataError(f"{path}: {len(values)} seconds are too few")
    return Recording(facts, values[:, 1], values[:, 2] > 0.0, values[:, 3:])


def _row(path: Path, at: int, row: list[str], columns: int) -> list[float]:
    try:
        values = [float(word) for word in row]
    except ValueError as error:
        raise DataError(f"{path}: line {at}: {error}") from error
    if len(values) != columns or not all(0.0 <= value < 1e6 for value in values):
        raise DataError(f"{path}: line {at}: {columns} numbers from 0 are expected")
    return values


def build(recording: Recording, seed: int, size: Size) -> Load:
    """A data center that runs what was recorded: each VM plays a slot from a random second on, round and round.

    Hosts are as large as it takes to be at 0.6 on average. Nothing is added: noise, spikes and overload
    are those of real programs. Sustained is a VM's running median of 21 s, which no causal rule can know.
    """
    generator = np.random.default_rng([seed, len(recording.busy)])
    length, slots = recording.slots.shape
    vms = size.hosts * size.vms
    slot, offset = generator.integers(slots, size=vms), generator.integers(length, size=vms)
    total = float(recording.slots[:, slot].sum(dtype=np.float64)) / length / size.hosts
    if total <= 0.0:
        raise DataError("the recording has no program that used a CPU")
    played = recording.slots * np.float32(BASE / total)
    sustained = running_median(played)
    home = np.repeat(np.arange(size.hosts), size.vms)
    demand = _play(played, slot, offset, np.arange(size.ticks, dtype=np.int64))
    level = _play(sustained, slot, offset, np.arange(size.ticks, dtype=np.int64))
    earlier = [np.arange(at, at + 600, dtype=np.int64) - BEFORE for at in range(0, BEFORE, 600)]
    before = np.vstack([per_host(_play(played, slot, offset, ticks), home, size.hosts) for ticks in earlier])
    found = without_faults(size.ticks, size.hosts)
    memory = memory_of(generator, vms)
    return Load("recorded", demand, level, home, memory, found.valid, found.wrong, measured(before))


def _play(slots: Floats, slot: Ints, offset: Ints, ticks: Ints) -> Floats:
    played: Floats = slots[(ticks[:, None] + offset) % len(slots), slot]
    return played


def running_median(values: Floats) -> Floats:
    """The centred running median (T, N) over 21 s; steps keep their place, what is shorter than half of it vanishes."""
    margin = _SUSTAINED // 2
    padded = np.pad(values, ((margin, margin), (0, 0)), mode="edge")
    return np.asarray(np.median(sliding_window_view(padded, _SUSTAINED, axis=0), axis=-1), np.float32)


def texture(recording: Recording) -> dict[str, float]:
    """Texture of the load below its sustained level: deviation and lag-1 correlation of the rest, and how many
    times an hour it reached 0.98 for 3 s at most."""
    used = recording.busy[:, None]
    rest = (used - running_median(used))[:, 0].astype(np.float64)
    spread = float(rest.std())
    correlation = float(np.corrcoef(rest[1:], rest[:-1])[0, 1]) if spread > 0.0 and len(rest) > 2 else 0.0
    full = np.flatnonzero(np.diff(np.concatenate(([0], used[:, 0] >= 0.98, [0]))))
    short = int((full[1::2] - full[::2] <= 3).sum())
    return {
        "mean": round(float(used.mean()), 4),
        "deviation": round(spread, 4),
        "correlation": round(correlation, 3),
        "spikes_per_hour": round(short * 3600.0 / len(used), 1),
    }
