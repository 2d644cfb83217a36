import numpy as np
import numpy.typing as npt

from filters.kernels.step import Floats

def advance(
    planes: Floats,
    numbers: bytes,
    values: bytes,
    codes: bytes,
    exceptions: bytes,
    dt: float,
    taus: npt.NDArray[np.float64],
) -> tuple[bytes, int]: ...
