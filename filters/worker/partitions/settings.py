"""Settings of the filter, resolved once from the configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from acquisition.wire.records import record_format
from acquisition.wire.records.record_format import Versions
from acquisition.wire.rejected import Limits
from acquisition.wire.signature import Verifier
from filters.worker.inputs.plan import InputsSettings, Lengths, Plan, make_plan

_MOST_PLANS = 4096


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
    reader_retention_seconds: float = 900.0  #: retention of entries not yet read by living readers
    reader_retention_bytes: int = 32 << 20
    expire_seconds: float = 600.0
    inputs: InputsSettings | None = None  #: None: no decision inputs
    limits: Limits = field(default_factory=Limits)
    verifier: Verifier | None = field(default=None, repr=False, compare=False)  #: None: signatures are not checked
    versions: Versions = record_format.FORMATS[record_format.NEWEST]  #: of written records
    _plans: dict[tuple[int, tuple[str, ...], Lengths], Plan | None] = field(
        default_factory=dict, repr=False, compare=False
    )

    @property
    def most_reader_seconds(self) -> float:
        """The longest retention."""
        return max(self.retention_seconds, self.reader_retention_seconds)

    @property
    def most_reader_bytes(self) -> int:
        """The maximum kept per partition."""
        return max(self.retention_bytes, self.reader_retention_bytes)

    def written_as(self, number: int) -> FilterSettings:
        """Settings limited to what records of this format can hold. Raises ConfigError for an unknown format."""
        return replace(self, versions=record_format.versions(number))

    def plan(self, resource_set: int, metrics: tuple[str, ...], interval: float) -> Plan | None:
        """The plan of the decision inputs of a resource set with these columns and seconds between two ticks, always
        the same object; None: nothing is configured."""
        if self.inputs is None:
            return None
        key = (resource_set, metrics, self.inputs.lengths(interval))
        if key not in self._plans:
            if len(self._plans) >= _MOST_PLANS:  # a sender keeps changing tables; at worst windows start again
                self._plans.clear()
            self._plans[key] = make_plan(self.inputs, *key, lambda name: self.tau.get(name, self.tau_seconds))
        return self._plans[key]

    def tau_row(self, metrics: tuple[str, ...]) -> npt.NDArray[np.float64] | None:
        """Time constants of the named columns, float64 (m,), or None if all have the default."""
        if not any(metric in self.tau for metric in metrics):
            return None
        return np.array([self.tau.get(metric, self.tau_seconds) for metric in metrics])
