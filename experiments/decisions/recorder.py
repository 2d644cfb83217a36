"""Recorder (``--record``): real programs as our own probe sees them at 1 Hz.

The probe is the product's, as a process of its own (``shardpulse probe --dry-run``): its sources, checks
and codes. Needs no shard.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from acquisition.errors import CannotCreateError, UnavailableError
from acquisition.model.derived import CPU, DERIVED
from experiments.decisions.programs import Programs, Ran
from experiments.decisions.recording import Recording, write

_CONFIG = """\
[probe]
interval_seconds = 1.0
discovery_interval_seconds = 1.0
[probe.vms]
enabled = false
"""


def record(path: Path, seconds: int, slots: int, seed: int) -> Recording:
    """Run programs and the probe for so many seconds; the recording, which is written to ``path`` as well."""
    try:
        path.touch()
    except OSError as error:
        raise CannotCreateError(f"{path}: cannot be written: {error}") from error
    with tempfile.TemporaryDirectory(prefix="shardpulse-record-") as name:
        directory = Path(name)
        config = directory / "probe.toml"
        config.write_text(_CONFIG)
        with Programs(slots, seed, directory, time.time) as programs:
            lines = list(_probe(config, seconds))
        recording = digest(lines, programs.ran, slots, {"seed": str(seed)})
    write(path, recording)
    return recording


def _probe(config: Path, seconds: int) -> Iterable[dict[str, Any]]:
    """The readings of a probe over ``seconds`` intervals. Raises UnavailableError when it fails."""
    command = [sys.executable, "-m", "acquisition.cli", "probe", "--dry-run", "--config", str(config)]
    with subprocess.Popen([*command, "--ticks", str(seconds + 1)], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield from (json.loads(line) for line in child.stdout)
        finally:
            child.terminate()
    if child.returncode:
        raise UnavailableError(f"the probe ended with exit code {child.returncode}")


def digest(readings: Iterable[dict[str, Any]], ran: list[Ran], slots: int, facts: dict[str, str]) -> Recording:
    """The recording of a probe's readings: the host's CPU, and that of each slot's program at each tick."""
    every = list(readings)
    hosts = {reading["tick"]: reading for reading in every if reading["resource_set"] == "host"}
    processes = {reading["tick"]: reading for reading in every if reading["resource_set"] == "processes"}
    ticks = sorted(hosts)[1:]  # rates have no value in the first
    busy = [_busy(hosts[tick]["entities"][0]) for tick in ticks]
    used = np.zeros((len(ticks), slots), np.float32)
    for row, tick in enumerate(ticks):
        at = hosts[tick]["time"]
        cores = _cores(processes.get(tick))
        for each in ran:
            if each.began <= at and each.ended > at - 1.0:
                used[row, each.slot] += cores.get(each.pid, 0.0)
    known = facts | {
        "recorded": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": str(os.cpu_count()),
        "programs": " ".join(sorted({each.name for each in ran})),
    }
    values = np.array([0.0 if value is None else value for value in busy], np.float32)
    return Recording(known, values, np.array([value is not None for value in busy]), used)


def _busy(entity: dict[str, Any]) -> float | None:
    metrics = entity["metrics"]
    parts = [metrics.get(part) for part in DERIVED[CPU].parts]
    return None if None in parts else max(0.0, DERIVED[CPU].formula(max, *parts))


def _cores(reading: dict[str, Any] | None) -> dict[int, float]:
    """Cores by pid."""
    entities = reading["entities"] if reading is not None else []
    return {int(each["stable"].rpartition(":")[2]): each["metrics"].get("cpu_ratio", 0.0) for each in entities}
