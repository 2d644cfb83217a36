"""The last raw value, valid or not: what readers show beside the smoothed one."""

from __future__ import annotations

from acquisition.wire.records import planes
from filters.kernels.step import Kernel

KERNEL = Kernel(planes.LAST)
