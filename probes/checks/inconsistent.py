"""INCONSISTENT: figures of one row contradict each other.

- Host: user + system + idle + iowait + steal + guest must be 1 within ``tolerance``.
- Process, VM: user + system + guest must be ``cpu_ratio`` within ``tolerance`` (of a core,
  and of the figure if that is more than a core). So guest time beyond all CPU time fails.

All CPU figures of the row are marked, as it is unknown which one is wrong. If one of the
terms has no value the sum is only too large or unknown, never too small; for guest time of
the host that holds only if the source printed the column (vmstat of procps 3 counts
guest time as user time, so there the sum is 1 without it). vmstat of procps 4.0.1 and 4.0.2
without -w takes guest time out of ``us`` and does not print it: for such captures of hosts
with guests set ``tolerance = 1``.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import INCONSISTENT, MISSING, VALID
from acquisition.model.metric import ResourceSet
from probes.checks.check import Check, CheckSettings, column_of, nothing, setting
from probes.sampling.native import COLUMNS
from probes.sampling.reading import Reading

_SHARES = tuple(f"cpu_{name}_ratio" for name in ("user", "system", "idle", "iowait", "steal"))
_GUEST = "cpu_guest_ratio"
_PARTS = ("cpu_user_ratio", "cpu_system_ratio", _GUEST)
_WHOLE = "cpu_ratio"

_TOLERANCE = Parameter("tolerance", 0.05, 0, 1, "maximum deviation from 1 of the sum of CPU shares")


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The check for a resource set with the columns of a host or of a process, else ``nothing``."""
    tolerance = setting(settings, _TOLERANCE) + 1e-9
    width = len(resource_set.metrics)
    shares = [column_of(resource_set, name) for name in _SHARES]
    if min(shares) >= 0:
        return _host(width, shares, column_of(resource_set, _GUEST), tolerance)
    parts = [column_of(resource_set, name) for name in _PARTS]
    whole = column_of(resource_set, _WHOLE)
    return _process(width, parts, whole, tolerance) if min(parts) >= 0 and whole >= 0 else nothing


def _host(width: int, shares: list[int], guest: int, tolerance: float) -> Check:
    columns = [*shares, guest] if guest >= 0 else shares
    of_columns = itemgetter(*columns)

    def check(reading: Reading) -> None:
        values, codes = reading.values, reading.codes
        for row in range(0, len(values), width):
            if not any(of_columns(codes[row : row + width])) and _is_whole(
                of_columns(values[row : row + width]), tolerance
            ):
                continue
            usable = [row + column for column in columns if codes[row + column] == VALID]
            total = sum(values[i] for i in usable)
            complete = all(codes[row + column] == VALID for column in shares) and (
                guest < 0 or codes[row + guest] in (VALID, MISSING)
            )
            if total > 1.0 + tolerance or (complete and total < 1.0 - tolerance):
                for i in usable:
                    codes[i] = INCONSISTENT

    return check


def _is_whole(shares: Sequence[float], tolerance: float) -> bool:
    return 1.0 - tolerance <= sum(shares) <= 1.0 + tolerance


def _process(width: int, parts: list[int], whole: int, tolerance: float) -> Check:
    def check(reading: Reading) -> None:
        if not COLUMNS.unbalanced(reading.values, width, *parts, whole, tolerance):
            return
        for row in range(0, len(reading.values), width):
            _mark(reading, [row + column for column in parts], row + whole, tolerance)

    return check


def _mark(reading: Reading, parts: list[int], whole: int, tolerance: float) -> None:
    values, codes = reading.values, reading.codes
    if codes[whole] != VALID:
        return
    usable = [i for i in parts if codes[i] == VALID]
    off = sum(values[i] for i in usable) - values[whole]
    allowed = tolerance * max(1.0, values[whole])
    if off > allowed or (off < -allowed and len(usable) == len(parts)):
        for i in (*usable, whole):
            codes[i] = INCONSISTENT


CHECK = CheckKind(
    "Contradictory figures of one row, such as CPU shares that do not add up: INCONSISTENT.",
    build,
    (_TOLERANCE,),
)
