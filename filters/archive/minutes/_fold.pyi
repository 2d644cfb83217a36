import numpy as np
import numpy.typing as npt

from filters.archive.minutes.values import Floats

_Doubles = npt.NDArray[np.float64]

def fold(
    count: _Doubles,
    valid: _Doubles,
    mean: _Doubles,
    squares: _Doubles,
    low: Floats,
    high: Floats,
    last: Floats,
    last_tick: npt.NDArray[np.int64],
    values: bytes,
    codes: bytes,
    rows: bytes | npt.NDArray[np.int64],
    metrics: int,
    tick: int,
    mask: int,
    /,
) -> bytes: ...
