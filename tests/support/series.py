"""Series of frames with invalid samples, and the expected smoothed state."""

from __future__ import annotations

import numpy as np
import pytest

from acquisition.link.cluster import Cluster
from acquisition.model import codes
from acquisition.wire import keys
from acquisition.wire.records import smoothed
from acquisition.wire.records.smoothed import SmoothedRecord
from experiments.harness import scalar_model
from experiments.harness.scalar_model import Observation
from tests.support.applied import sequence_of
from tests.support.feeder import Feeder

ROWS, COLUMNS, TAU = 4, 3, 5.0


def values(host: int, tick: int) -> np.ndarray:
    return np.random.default_rng((host, tick)).normal(10.0, 3.0, (ROWS, COLUMNS))


def marks(host: int, tick: int) -> np.ndarray:
    rng = np.random.default_rng((host, tick, 1))
    return np.where(rng.random((ROWS, COLUMNS)) < 0.2, codes.RANGE, 0).astype(np.uint8)


def frame(feeder: Feeder, tick: int, floor: int = 1) -> bytes:
    """The next frame of the series."""
    return feeder.make(values(feeder.host, tick), float(tick), codes=marks(feeder.host, tick), floor=floor)


def feed(feeder: Feeder, first: int, last: int) -> list[bytes]:
    """Push the frames of these ticks; answers them, so that they can be sent again."""
    frames = [frame(feeder, tick) for tick in range(first, last + 1)]
    for data in frames:
        feeder.push(data)
    return frames


def applied_sequence(cluster: Cluster, feeder: Feeder) -> int:
    """The newest applied frame, 0 if absent."""
    return sequence_of(cluster, feeder.host, feeder.resource_set)


def record(cluster: Cluster, feeder: Feeder, tick: int) -> SmoothedRecord:
    slot = (1_000_000 + tick) % keys.DEFAULT_KEEP_TICKS
    key = keys.smoothed(feeder.tag, feeder.host, feeder.resource_set, slot)
    return smoothed.decode(cluster.call(key, "GET", key))


def assert_equals_model(cluster: Cluster, feeder: Feeder, tick: int) -> None:
    """The state of ``tick`` is what the scalar model makes of all ticks from 1."""
    found = record(cluster, feeder, tick)
    assert found.tick == 1_000_000 + tick
    seen = [(float(t), np.float32(values(feeder.host, t)), marks(feeder.host, t)) for t in range(1, tick + 1)]
    for row in range(ROWS):
        for column in range(COLUMNS):
            history = [Observation(t, float(value[row, column]), int(code[row, column])) for t, value, code in seen]
            want = scalar_model.run(history, TAU)
            for name in ("mean", "variance", "trend", "last"):
                got = found.planes[name][row, column]
                assert got == pytest.approx(getattr(want, name), rel=1e-4, abs=1e-5, nan_ok=True), (name, row, column)
            assert found.codes()[row, column] == want.code
