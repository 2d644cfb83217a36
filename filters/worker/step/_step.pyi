from typing import Any

import numpy as np
import numpy.typing as npt

from filters.kernels.step import Floats
from filters.worker.inputs.state import NativeInputs

def advance(
    planes: Floats,
    numbers: bytes,
    values: bytes,
    codes: bytes,
    exceptions: bytes,
    dt: float,
    taus: npt.NDArray[np.float64],
    head: bytes,
    ids: bytes,
    raw: int,
    prefix: bytes,
    tail: bytes,
    inputs: NativeInputs | None,
    /,
) -> tuple[bytes, int, bytes, bytes | None]: ...
def next_frame(data: bytes, track: Any, /) -> int: ...

class Stepper:
    def __new__(
        cls,
        planes: Floats,
        numbers: bytes,
        exceptions: bytes,
        taus: npt.NDArray[np.float64],
        head: bytes,
        ids: bytes,
        raw: int,
        prefixes: tuple[bytes, ...],
        tail: bytes,
        track: Any,
        monotonic: float,
        inputs: NativeInputs | None,
        seed_every: int,
        seeds: int,
        lives_until: float,
        /,
    ) -> Stepper: ...
    def run(self, frames: list[bytes], now: float, moment: float, /) -> tuple[int, dict[bytes, bytes], list[bytes]]: ...
    def state(self) -> tuple[bytes, float, int]: ...
