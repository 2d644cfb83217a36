"""Values of emulated samples, cut from one long seeded strip of rows.

Making a frame must cost next to nothing, as the generator shares the cores with the measured pipeline, and yet every
value must change at every tick. So all values are made once, as a strip of ``STRIP_ROWS`` rows; frame number k of a
host is the cut of ``entities`` rows that starts at ``start(host) + k * stride``. The strip is wound so that a row moves
along a slow wave with noise from frame to frame, which gives the filter a trend to find. Validity codes are in a
separate strip.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from acquisition.model import codes as validity
from acquisition.model.identity import identity
from experiments.emulation.workload import Workload, resource_set, scale

STRIP_ROWS = 16411  #: prime, so that any stride visits every row before it repeats
_WAVE_FRAMES = 60.0
_OUTLIERS = 0.001

#: Codes of invalid samples, with their frequency out of 10.
_FAILURES = np.array(
    [validity.RANGE] * 5 + [validity.MISSING] * 2 + [validity.TIMEOUT, validity.INCONSISTENT, validity.RATE],
    np.uint8,
)


class Strip:
    """Cuts of one seeded strip; ``cut`` is the only call of the generator per frame."""

    def __init__(self, workload: Workload) -> None:
        self.metrics = workload.metrics
        self.stride = _stride(workload.entities)
        self.values, self.codes = _wind(workload, self.stride)
        self._seed = workload.seed
        self._value_bytes = self.values.tobytes()
        self._code_bytes = self.codes.tobytes()
        self.invalid_before = _running_count(self.codes)  #: invalid samples in the rows before each

    def start(self, host_index: int) -> int:
        """The first row of a host's first frame."""
        return identity("strip", str(self._seed), str(host_index)) % STRIP_ROWS

    def row(self, start: int, number: int) -> int:
        """The first row of frame ``number`` (0, 1, 2 …) of the host that starts at ``start``."""
        return (start + number * self.stride) % STRIP_ROWS

    def cut(self, row: int, entities: int) -> tuple[bytes, bytes]:
        """The values (float32) and codes (empty if all are zero) of ``entities`` rows from ``row``."""
        first, last = row * self.metrics, (row + entities) * self.metrics
        values = self._value_bytes[4 * first : 4 * last]
        if self.invalid_before[row] == self.invalid_before[row + entities]:
            return values, b""
        return values, self._code_bytes[first:last]


def _stride(entities: int) -> int:
    """Rows between two frames of a host: more than in a frame, so that consecutive frames share none."""
    stride = max(127, entities + 1) % STRIP_ROWS
    return stride or 1


def _wind(workload: Workload, stride: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
    """Values and codes of the strip, with enough of its beginning repeated for a cut at its end."""
    random = np.random.default_rng(workload.seed)
    scales = np.array([scale(metric) for metric in resource_set(workload.metrics).metrics])
    turn = (np.arange(STRIP_ROWS) * _inverse(stride)) % STRIP_ROWS  # the first frame with a row
    phase = random.uniform(0.0, 2 * math.pi, workload.metrics)
    wave = np.sin(turn[:, None] * (2 * math.pi / _WAVE_FRAMES) + phase)
    noise = random.standard_normal((STRIP_ROWS, workload.metrics)).clip(-3, 3)
    values = (scales * (0.5 + 0.25 * wave + 0.05 * noise)).astype(np.float32)
    codes = _spoil(values, scales, _failures(workload, stride, random), random)
    return (
        np.concatenate([values, values[: workload.entities]]),
        np.concatenate([codes, codes[: workload.entities]]),
    )


def _inverse(stride: int) -> int:
    return pow(stride, -1, STRIP_ROWS)


def _failures(workload: Workload, stride: int, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    """Codes of the invalid samples of the strip, repeated over the frames in which a sample stays invalid."""
    codes = np.zeros((STRIP_ROWS, workload.metrics), np.uint8)
    if workload.invalid <= 0:
        return codes
    longest = workload.longest_run
    begins = random.random(codes.shape) < workload.invalid * 2 / (1 + longest)
    codes[begins] = random.choice(_FAILURES, int(begins.sum()))
    if longest > 1:
        first, length = codes.copy(), random.integers(1, longest, codes.shape, endpoint=True)
        for later in range(1, longest):
            shift = later * stride % STRIP_ROWS
            np.copyto(codes, np.roll(first * (length > later), shift, 0), where=codes == validity.VALID)
    return codes


def _spoil(
    values: npt.NDArray[np.float32],
    scales: npt.NDArray[np.float64],
    codes: npt.NDArray[np.uint8],
    random: np.random.Generator,
) -> npt.NDArray[np.uint8]:
    """The codes, with a few outlier flags; values of invalid samples become NaN or impossible."""
    if not codes.any():
        return codes
    impossible = np.broadcast_to(-2.0 * scales, values.shape)
    np.copyto(values, impossible, where=(codes == validity.RANGE), casting="same_kind")
    np.copyto(values, -50.0 * impossible, where=(codes == validity.RATE), casting="same_kind")
    values[(codes == validity.MISSING) | (codes == validity.TIMEOUT)] = np.nan
    codes[(codes == validity.VALID) & (random.random(values.shape) < _OUTLIERS)] = validity.OUTLIER_FLAG
    return codes


def _running_count(codes: npt.NDArray[np.uint8]) -> list[int]:
    per_row = np.count_nonzero(codes, axis=1)
    counts: list[int] = np.concatenate([[0], np.cumsum(per_row)]).tolist()
    return counts
