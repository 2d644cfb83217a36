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
def take_followers(
    entries: list[Any],
    at: int,
    end: int,
    partition: Any,
    states: dict[tuple[int, int], Any],
    heard: dict[tuple[int, int], float],
    dirty: dict[bytes, Any],
    now: float,
    kind: type,
    accepted: Any,
    /,
) -> tuple[int, int]: ...
def write_positions(key: bytes, states: dict[bytes, Any], /) -> bytes: ...
def run_all(accepted: list[Any], now: float, moment: float, /) -> list[list[Any]]: ...

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
    def state(self) -> tuple[bytes, float, int]: ...
