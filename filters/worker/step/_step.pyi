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
