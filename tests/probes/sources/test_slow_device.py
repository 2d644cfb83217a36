"""A device that is really slowed is found by the benchmark and the detector of the archive."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from experiments.paper.storage import run
from experiments.processes import throttle
from experiments.processes.throttle import Throttle
from filters.archive.database.shift import shifts
from probes.sources.storage import Options

LEARNED, MOST = 20, 10  #: runs before the device is slowed, and after that
SLOW = 16 << 20  #: bytes per second
HERE = Path(__file__).parent  #: on a disk; temporary files may lie in memory


@pytest.mark.needs("fio")
@pytest.mark.few
def test_slowed_device_is_reported_within_a_few_runs() -> None:
    if reason := throttle.lacking(HERE):
        pytest.skip(f"NO DEVICE IS SLOWED HERE: {reason}")
    options = Options(str(HERE), 2 << 20, (65536, 1 << 20), 5.0, 0, False)
    speeds: list[list[float]] = []
    found = []
    with Throttle(HERE) as device:
        for number in range(LEARNED + MOST):
            device.set(0 if number < LEARNED else SLOW)
            speeds.append([point["throughput_bytes_per_second"] for point in run(options, device)])
            found = shifts(np.array(speeds).T, -0.05)
            if number >= LEARNED and all(found):
                break
    for point, one in zip(options.points, found, strict=True):
        assert one is not None, (point.name, speeds)
        assert one.change < -0.5
