"""RESET: a counter went back, in the way vmstat shows it.

vmstat subtracts unsigned numbers and casts the result to 32 bits (src/vmstat.c), so a
counter that went back by k prints 2^32 - k per second. No existing host has really seen 2^31
interrupts, context switches or kilobytes of block I/O in a second.
Sources that read counters themselves (``probes.figures.row``) set RESET when they see the step;
a wrap of 64 bits, as pidstat prints it, is already out of range.
"""

from __future__ import annotations

from array import array

from acquisition.model.check_kind import CheckKind
from acquisition.model.codes import RESET, VALID
from acquisition.model.metric import INFINITY, ResourceSet
from probes.checks.check import Check, CheckSettings, column_of, nothing
from probes.sampling.native import COLUMNS
from probes.sampling.reading import Reading

_HALF, _WHOLE = float(1 << 31), float(1 << 32)
_SURELY_LESS = _HALF - 1.0

#: metric -> its unit in vmstat
_WRAPS = {
    "block_in_bytes_per_second": 1024.0,
    "block_out_bytes_per_second": 1024.0,
    "interrupts_per_second": 1.0,
    "context_switches_per_second": 1.0,
}


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The reset check: marks the wrapped figure only. No parameters."""
    del settings
    width = len(resource_set.metrics)
    units = {column_of(resource_set, name): unit for name, unit in _WRAPS.items()}
    units.pop(-1, None)
    if not units:
        return nothing
    lows = array("d", [-INFINITY] * width)
    highs = array("d", [_SURELY_LESS * units[i] if i in units else INFINITY for i in range(width)])

    def check(reading: Reading) -> None:
        values, codes = reading.values, reading.codes
        for column in COLUMNS.outside(values, lows, highs):
            for i in range(column, len(values), width):
                if _HALF <= values[i] / units[column] <= _WHOLE and codes[i] == VALID:
                    codes[i] = RESET

    return check


CHECK = CheckKind("Counter that went back: RESET, never a negative rate.", build)
