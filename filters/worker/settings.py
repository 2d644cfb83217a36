"""What the filter needs of the configuration, resolved once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from acquisition.wire import record_format
from acquisition.wire.inputs import PLATEAU_VERSION
from acquisition.wire.record_format import Versions
from filters.worker.inputs.plan import InputsSettings


@dataclass(frozen=True)
class FilterSettings:
    """Times in seconds, sizes in bytes; ``tau`` overrides the time constant by metric name."""

    kernels: tuple[str, ...] = ("last", "mean", "variance", "trend")
    tau_seconds: float = 5.0
    tau: Mapping[str, float] = field(default_factory=dict)
    keep_ticks: int = 3
    linger_seconds: float = 0.1
    retention_seconds: float = 30.0
    retention_bytes: int = 16 << 20
    expire_seconds: float = 600.0
    inputs: InputsSettings | None = None  #: None: no decision inputs
    versions: Versions = record_format.FORMATS[record_format.NEWEST]  #: of the records that are written

    def written_as(self, number: int) -> FilterSettings:
        """What can be kept in records of this format. Raises ConfigError for one that is not known."""
        versions, inputs = record_format.versions(number), self.inputs
        if inputs is not None and versions.inputs < PLATEAU_VERSION:
            inputs = replace(inputs, plateau=0, _plans={})
        return replace(self, versions=versions, inputs=inputs)

    def tau_row(self, metrics: tuple[str, ...]) -> npt.NDArray[np.float64] | None:
        """Time constants of the named columns, float64 (m,), or None when all have the default one."""
        if not any(metric in self.tau for metric in metrics):
            return None
        return np.array([self.tau.get(metric, self.tau_seconds) for metric in metrics])
