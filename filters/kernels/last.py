"""Last raw value, valid or not, shown beside the smoothed one."""

from __future__ import annotations

from acquisition.wire.records import planes
from filters.kernels.step import Kernel

KERNEL = Kernel(planes.LAST)
