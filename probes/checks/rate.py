"""RATE: more than an interval allows; RANGE: more than the machine has.

``BOUNDS`` is the one table of possible growth in an interval, with a reason for each row. Interval and counters are
measured at different moments and in different units, hence the tolerances:

- ``tolerance`` (5%): clocks of the kernel and of the probe, counters that a driver updates in bursts;
- ``LATE_SECONDS``: a file is read after the clock, and times are counted in ticks of 1/100 s;
- the larger of two readings counts if CPUs come and go: work was done before they went.

Sources apply the same numbers to data visible only to them: the ticks of /proc/stat before they become shares
(``probes.figures.host_figures``), each interface (``network``) and the threads of a process (``process_files``).
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import NamedTuple

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import RANGE, RATE, VALID
from acquisition.model.metric import COUNTER, INFINITY, ResourceSet
from probes.checks.check import ROUNDING, Check, CheckSettings, column_of, mark_outside, nothing, setting
from probes.metrics import WITHIN_MEMORY
from probes.sampling.native import COLUMNS
from probes.sampling.reading import Reading

TOLERANCE = 0.05
_TOLERANCE = Parameter("tolerance", TOLERANCE, 0, 1, "fraction by which a rate may exceed its maximum")
#: Seconds by which an interval may exceed its measurement: two ticks, or a wait for a core before the read.
LATE_SECONDS = 0.02
#: Limit for all kinds of ticks of /proc/stat together, where 1 is the limit of each: a tickless kernel measures idle
#: time and samples the rest, and a guest's wait for a core counts as steal and as idle time.
ALL_TICKS = 1.4
#: CPUs of a machine that does not report them: the largest NR_CPUS of Linux.
MOST_CPUS = 8192
#: Bytes per second of a link of unknown speed: 400 Gbit/s, more than a virtual one copies.
UNKNOWN_LINK = 5e10

_CORES, _MEMORY = "cpu_count", "memory_total_bytes"  #: columns of the host, else of ``Reading``


class Bound(NamedTuple):
    """``metrics`` grow by at most ``most`` times ``of`` in a second: a column of the same row, else the machine's
    cores or memory, 1 without a name. Unknown values bound nothing. ``at_once`` is added, however
    short the interval. A gauge lies within ``of``."""

    metrics: tuple[str, ...]
    of: str
    most: float
    reason: str
    code: int = RATE
    at_once: float = 0.0


BOUNDS = (
    Bound(
        ("cpu_user_ratio", "cpu_system_ratio", "cpu_guest_ratio", "cpu_ratio", "vcpu_run_ratio"),
        _CORES,
        1.0,
        "a core runs for a second in a second",
        RANGE,
    ),
    Bound(("cpu_guest_ratio", "vcpu_run_ratio"), "vcpu_count", 1.0, "so does a vCPU"),
    Bound(
        ("vcpu_delay_ratio", "vcpu_throttled_ratio", "vcpu_suffering_ratio"),
        "vcpu_count",
        1.0,
        "a vCPU waits alone; a wait is charged when it ends, perhaps after a minute",
        at_once=60.0,
    ),
    Bound(
        ("cpu_wait_ratio",),
        "",
        1.0,
        "one thread; a wait is charged when it ends, perhaps after a minute",
        at_once=60.0,
    ),
    Bound(("io_delay_ticks",), "", 1e8, "all threads, charged likewise: 16,384 that have waited for a minute"),
    Bound(
        ("interrupts_per_second", "context_switches_per_second", "minor_faults_per_second", "major_faults_per_second"),
        _CORES,
        5e6,
        "a core takes 200 ns to enter and leave the kernel",
    ),
    Bound(
        ("voluntary_switches_per_second", "involuntary_switches_per_second"),
        "",
        5e6,
        "as often as that core, for one thread",
    ),
    Bound(
        (
            "swap_in_bytes_per_second",
            "swap_out_bytes_per_second",
            "block_in_bytes_per_second",
            "block_out_bytes_per_second",
            "disk_read_bytes_per_second",
            "disk_write_bytes_per_second",
            "disk_write_cancelled_bytes_per_second",
        ),
        _CORES,
        32e9,
        "every byte crosses the memory, of whose bandwidth a core's part is below 32 GB/s",
    ),
    Bound(
        ("network_receive_bytes_per_second", "network_transmit_bytes_per_second"),
        "link_speed_bytes_per_second",
        1.0,
        "links carry their speed in each direction",
    ),
    Bound(tuple(WITHIN_MEMORY - {_MEMORY}), _MEMORY, 1.0, "no part is larger than the whole", RANGE),
)


def growth(seconds: float, tolerance: float = TOLERANCE) -> float:
    """Upper bound for the time in seconds between two reads of a counter, ``seconds`` apart by the probe's clock."""
    return seconds * (1.0 + tolerance) + LATE_SECONDS


class _Limit(NamedTuple):
    """Bound of one column, which grows or is a gauge; ``of`` is the column it depends on, -1: the machine's."""

    column: int
    of: int
    bound: Bound
    grows: bool


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The rate check: marks values that exceed their bound, not the bounding values."""
    tolerance = setting(settings, _TOLERANCE)
    width = len(resource_set.metrics)
    limits = _limits(resource_set)
    if not limits:
        return nothing
    of_rows = [limit for limit in limits if limit.of >= 0]
    of_machine = [limit for limit in limits if limit.of < 0]
    codes = {limit.column: limit.bound.code for limit in of_machine}
    lows, highs = array("d", [-INFINITY] * width), array("d", [INFINITY] * width)
    cores_before = 0
    before: Reading | None = None

    def check(reading: Reading) -> None:
        nonlocal before, cores_before
        seconds = reading.dt if reading.dt > 0 else 1.0
        stretch = growth(seconds, tolerance) / seconds
        cores, cores_before = max(reading.cores, cores_before), reading.cores
        machine = {"": 1.0, _CORES: cores or INFINITY, _MEMORY: reading.memory_bytes or INFINITY}
        same = before is not None and before.entities is reading.entities
        old = before.values if before is not None and same else reading.values
        for column, of, bound, grows in of_rows:
            most = bound.most * stretch + bound.at_once / seconds if grows else ROUNDING
            _bound_rows(reading, old, range(column, len(reading.codes), width), of - column, most, bound, machine)
        if of_rows:
            before = reading
        for column, _, bound, grows in of_machine:
            most = bound.most * stretch + bound.at_once / seconds if grows else ROUNDING
            highs[column] = machine[bound.of] * most
        for column in COLUMNS.outside(reading.values, lows, highs):
            places = range(column, len(reading.codes), width)
            mark_outside(reading, places, -INFINITY, highs[column], codes[column])

    return check


def _bound_rows(
    reading: Reading,
    old: array[float],
    places: range,
    step: int,
    most: float,
    bound: Bound,
    machine: Mapping[str, float],
) -> None:
    """Each of ``places`` is bounded by ``most`` times the value ``step`` columns further, now or in the previous
    reading (``old``); if that is unknown, by the machine's."""
    values, codes = reading.values, reading.codes
    for place in places:
        of = place + step
        if values[place] <= values[of] * most and codes[of] == VALID:
            continue
        known = codes[of] == VALID and values[of] > 0
        amount = max(values[of], old[of]) if known else machine.get(bound.of, INFINITY)
        mark_outside(reading, (place,), -INFINITY, amount * most, bound.code)


def _limits(resource_set: ResourceSet) -> list[_Limit]:
    found = []
    for bound in BOUNDS:
        of = column_of(resource_set, bound.of)
        for name in bound.metrics:
            column = column_of(resource_set, name)
            if column < 0 or (of < 0 and bound.of not in ("", _CORES, _MEMORY)):
                continue
            metric = resource_set.metrics[column]
            if metric.high > bound.most:  # a share of all cores has its own limit
                found.append(_Limit(column, of, bound, metric.kind == COUNTER))
    return found


CHECK = CheckKind(
    "Value above the machine's capacity (RANGE) or rate (RATE), such as traffic above link speed.",
    build,
    (_TOLERANCE,),
)
