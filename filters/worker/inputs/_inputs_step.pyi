import numpy as np
import numpy.typing as npt

from acquisition.wire.inputs import Floats

def advance(
    planes: Floats,
    window: Floats,
    ordered: Floats,
    lately: Floats,
    derived: Floats,
    plan: bytes,
    values: bytes,
    codes: bytes,
    means: npt.NDArray[np.float32],
    dt: float,
    seconds: float,
    step: int,
    missing: int,
) -> bytes: ...
