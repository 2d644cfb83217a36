"""Network traffic from /proc/net/dev and link speeds from /sys/class/net (sysfs-class-net).

Host totals count the interfaces that have a device behind them (``/sys/class/net/NAME/device``):
loopback, bridges, taps, bonds and VLANs would count the same bytes again. Where no
interface has one, as in a container, all but loopback count.
"""

from __future__ import annotations

import os

from acquisition.model.codes import FIRST, MISSING, NAN, RESET, VALID
from probes.procfs import OpenFile, read_once
from probes.sources.figures import CounterMemory, Row, gauge

TRAFFIC = ("network_receive_bytes_per_second", "network_transmit_bytes_per_second")
LINK_SPEED = "link_speed_bytes_per_second"
_MEGABIT = 125_000.0
_LOOPBACK = "lo"
#: States of RFC 2863 in which nothing is carried (operstate of sysfs-class-net).
_DOWN = (b"down", b"notpresent", b"lowerlayerdown")
#: Interfaces come and go rarely: they are looked at again after so many readings.
_REFRESH = 60


class Traffic:
    """The byte counters of all interfaces, read at most once per tick for all who ask."""

    def __init__(self, proc: str = "/proc") -> None:
        self._file = OpenFile(f"{proc}/net/dev")

    def read(self) -> dict[str, tuple[int, int]]:
        """Interface -> bytes received, bytes transmitted. Raises OSError."""
        return parse(self._file.read())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def parse(text: bytes) -> dict[str, tuple[int, int]]:
    """The content of /proc/net/dev; lines that are none of its rows are skipped."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(b":")  # an alias such as eth0:1 has a colon of its own
        fields = rest.split()
        if colon and len(fields) >= 9 and fields[0].isdigit() and fields[8].isdigit():
            found[name.strip().decode("ascii", "replace")] = (int(fields[0]), int(fields[8]))
    return found


def physical(sys: str) -> frozenset[str]:
    """The interfaces with a device behind them; all but loopback when there are none."""
    try:
        names = os.listdir(f"{sys}/class/net")
    except OSError:
        return frozenset()
    real = [name for name in names if os.path.exists(f"{sys}/class/net/{name}/device")]
    return frozenset(real or [name for name in names if name != _LOOPBACK])


def link_speed(sys: str, names: frozenset[str]) -> float | None:
    """The sum of the speeds of the links that are up, in bytes per second; None when one of them, or none, has any.

    A virtual link says -1 or refuses the read; so does one that is down, which carries no traffic either.
    """
    total = 0.0
    for name in names:
        base = f"{sys}/class/net/{name}"
        if _is_down(base):
            continue
        try:
            speed = int(read_once(f"{base}/speed"))
        except (OSError, ValueError):
            return None
        if speed <= 0:
            return None  # its traffic counts: a sum without it would be exceeded
        total += speed * _MEGABIT
    return total or None


def _is_down(base: str) -> bool:
    try:
        return read_once(f"{base}/operstate").strip() in _DOWN
    except OSError:
        return False


def total(rates: list[tuple[float, int]]) -> tuple[float, int]:
    """The sum over interfaces: one that has just come adds nothing yet, one that was reset leaves no sum."""
    for code in (RESET, MISSING):
        if any(code == each for _, each in rates):
            return NAN, code
    valid = [value for value, code in rates if code == VALID]
    if not valid:
        return NAN, FIRST if rates else MISSING
    return sum(valid), VALID


class NetworkFigures:
    """The host's traffic and link speed."""

    metrics = (*TRAFFIC, LINK_SPEED)

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._traffic = Traffic(proc)
        self._sys = sys
        self._counters = CounterMemory()
        self._names: frozenset[str] = frozenset()
        self._speed: float | None = None
        self._age = _REFRESH

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        self._age += 1
        if self._age > _REFRESH:
            self._age = 1
            self._names = physical(self._sys)
            self._speed = link_speed(self._sys, self._names)
        row[LINK_SPEED] = gauge(self._speed)
        try:
            traffic = self._traffic.read()
        except OSError:
            return
        names = self._names.intersection(traffic)
        for column, metric in enumerate(TRAFFIC):
            rates = [self._counters.rate(f"{name}{column}", traffic[name][column], seconds) for name in names]
            row[metric] = total(rates)
        self._counters.keep([f"{name}{column}" for column in range(len(TRAFFIC)) for name in names])

    def close(self) -> None:
        """See ``Figures``."""
        self._traffic.close()
