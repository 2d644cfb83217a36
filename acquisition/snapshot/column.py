"""A column of a survey: what is known of one metric of all hosts, as plain values (acquisition.snapshot.survey)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]
_Kind = TypeVar("_Kind", np.bool_, np.float64)


class Column(NamedTuple):
    """One metric of all hosts, arrays (N,): NaN where not ``known``.

    ``mean`` is the moving average, ``last`` the raw value where it is valid, ``stale_seconds`` as of a reading.
    Of a metric that the filter does not derive, hosts with any invalid sample are not known.
    ``planes`` are the figures and counts of ``acquisition.wire.inputs``, of how many ticks they are: ``window``,
    ``plateau`` and ``counted_of``, and the ``threshold`` of those that are counted; NaN where they are not kept.
    ``warming``: whose window is not full.
    """

    known: Bools
    mean: Doubles
    last: Doubles
    stale_seconds: Doubles
    planes: Mapping[str, Doubles]
    warming: Bools

    def with_rows(self, rows: npt.NDArray[np.intp], others: Column) -> Column:
        """A copy in which the ``rows`` (k,) are those of ``others``."""
        planes = {name: _with(plane, rows, others.planes[name]) for name, plane in self.planes.items()}
        return Column(
            _with(self.known, rows, others.known), planes["mean"], planes["last"], planes["stale_seconds"], planes,
            _with(self.warming, rows, others.warming),
        )  # fmt: skip


def _with(values: npt.NDArray[_Kind], rows: npt.NDArray[np.intp], others: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    found = values.copy()
    found[rows] = others
    return found
