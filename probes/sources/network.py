"""Network traffic from /proc/net/dev and link speeds from /sys/class/net (sysfs-class-net).

Host totals count the interfaces that have a device behind them (``/sys/class/net/NAME/device``):
loopback, bridges, taps, bonds and VLANs would count the same bytes again. Where no
interface has one, as in a container, all but loopback count.
"""

from __future__ import annotations

import os

from acquisition.model.codes import FIRST, MISSING, NAN, RESET, VALID
from probes.procfs import OpenFile, read_once, whole
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
        self.file = OpenFile(f"{proc}/net/dev")

    def read(self) -> dict[str, tuple[int, int]]:
        """Interface -> bytes received, bytes transmitted. Raises OSError."""
        return parse(self.file.read())

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def parse(text: bytes) -> dict[str, tuple[int, int]]:
    """The content of /proc/net/dev; lines that are none of its rows are skipped."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(b":")  # an alias such as eth0:1 has a colon of its own
        fields = rest.split()
        if colon and len(fields) >= 9:
            received, transmitted = whole(fields[0]), whole(fields[8])
            if received is not None and transmitted is not None:
                found[os.fsdecode(name.strip())] = (received, transmitted)
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
    if all(code != VALID for _, code in rates):
        return NAN, FIRST if rates else MISSING
    found = 0.0
    for value, code in rates:  # one after the other: sum() of later Pythons rounds otherwise
        if code == VALID:
            found += value
    return found, VALID


class NetworkFigures:
    """The host's traffic and link speed."""

    metrics = (*TRAFFIC, LINK_SPEED)

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._traffic = Traffic(proc)
        self._sys = sys
        self._counters = CounterMemory()
        self.names: tuple[str, ...] = ()  #: the interfaces that count, in order
        self.speed: float | None = None  #: of their links
        self._age = _REFRESH

    @property
    def files(self) -> tuple[OpenFile, ...]:
        """What it reads."""
        return (self._traffic.file,)

    def look(self) -> bool:
        """Look for interfaces again when it is time to; whether it was. Once for each reading."""
        self._age += 1
        if self._age <= _REFRESH:
            return False
        self._age = 1
        names = physical(self._sys)
        self.names, self.speed = tuple(sorted(names)), link_speed(self._sys, names)
        return True

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        self.look()
        row[LINK_SPEED] = gauge(self.speed)
        try:
            traffic = self._traffic.read()
        except OSError:
            traffic = {}
        names = [name for name in self.names if name in traffic]
        for column, metric in enumerate(TRAFFIC):
            rates = [self._counters.rate(f"{name}{column}", traffic[name][column], seconds) for name in names]
            row[metric] = total(rates)
        self._counters.keep([f"{name}{column}" for column in range(len(TRAFFIC)) for name in names])

    def close(self) -> None:
        """See ``Figures``."""
        self._traffic.close()
