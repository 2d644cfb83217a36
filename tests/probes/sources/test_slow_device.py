"""A device that is really slowed is found by the benchmark and the detector of the archive."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from experiments.paper.storage import run
from experiments.processes import throttle
from experiments.processes.throttle import Throttle
from filters.archive.database.shift import Shift, shifts
from probes.sources.storage import Options

TOGETHER = 4  #: runs: fio waits for most of its time between points
LEARNED, MOST = 5, 4  #: times so many runs before the device is slowed, and after that
SLOW = 16 << 20  #: bytes per second
HERE = Path(__file__).parent  #: on a disk; temporary files may lie in memory


@pytest.mark.needs("fio")
@pytest.mark.few
def test_slowed_device_is_reported_within_a_few_runs() -> None:
    if reason := throttle.lacking(HERE):
        pytest.skip(f"NO DEVICE IS SLOWED HERE: {reason}")
    options = Options("", 2 << 20, (65536, 1 << 20), 5.0, 0, False)
    speeds: list[list[float]] = []
    found: list[Shift | None] = [None] * len(options.points)
    with TemporaryDirectory(dir=HERE) as place, Throttle(HERE) as device, ThreadPoolExecutor(TOGETHER) as pool:
        each = [options._replace(path=f"{place}/{number}") for number in range(TOGETHER)]
        for one in each:
            Path(one.path).mkdir()
        for number in range(LEARNED + MOST):
            device.set(0 if number < LEARNED else SLOW)
            for points in pool.map(partial(run, slowed=device), each):
                speeds.append([point["throughput_bytes_per_second"] for point in points])
            if number >= LEARNED:  # what was reported stays so: in the end slow is what is usual
                found = [one or new for one, new in zip(found, shifts(np.array(speeds).T, -0.05), strict=True)]
            if all(found):
                break
    for point, shift in zip(options.points, found, strict=True):
        assert shift is not None, (point.name, [run[options.points.index(point)] for run in speeds])
        assert shift.change < -0.5
