"""Network totals of the host: /proc/net/dev, link speeds from /sys/class/net.

See sysfs-class-net.

Host totals count the interfaces backed by a device (``/sys/class/net/NAME/device``):
loopback, bridges, taps, bonds and VLANs would count the same bytes again. If no
interface has one, as in a container, all but loopback count. One with a counted ``master``
does not: the master has its bytes (a virtual function below hv_netvsc or net_failover).
"""

from __future__ import annotations

import os

from acquisition.model.codes import FIRST, MISSING, NAN, RATE, RESET, VALID
from probes.checks.rate import UNKNOWN_LINK, growth
from probes.figures.row import CounterMemory, Row, gauge
from probes.sampling.procfs import OpenFile, read_once, whole

TRAFFIC = ("network_receive_bytes_per_second", "network_transmit_bytes_per_second")
LINK_SPEED = "link_speed_bytes_per_second"
_MEGABIT = 125_000.0
_LOOPBACK = "lo"
#: States of RFC 2863 in which nothing is carried (operstate of sysfs-class-net).
_DOWN = ("down", "notpresent", "lowerlayerdown")
#: Interfaces come and go rarely: they are checked again after this number of readings.
_REFRESH = 60


class Traffic:
    """Byte counters of all interfaces, read at most once per tick for all users."""

    def __init__(self, proc: str = "/proc") -> None:
        self.file = OpenFile(f"{proc}/net/dev")

    def read(self) -> dict[str, tuple[int, int]]:
        """Interface -> bytes received, bytes transmitted. Raises OSError."""
        return parse(self.file.read())

    def close(self) -> None:
        """Close the file."""
        self.file.close()


def parse(text: bytes) -> dict[str, tuple[int, int]]:
    """Content of /proc/net/dev; invalid rows are skipped."""
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
    """Interfaces backed by a device, all but loopback if there are none; no slave of one of these."""
    try:
        names = os.listdir(f"{sys}/class/net")
    except OSError:
        return frozenset()
    real = [name for name in names if os.path.exists(f"{sys}/class/net/{name}/device")]
    found = set(real or [name for name in names if name != _LOOPBACK])
    return frozenset(name for name in found if _master(f"{sys}/class/net/{name}") not in found - {name})


def _master(base: str) -> str:
    try:
        return os.path.basename(os.readlink(f"{base}/master"))
    except OSError:  # there is none, or it is a file in a capture without links
        return os.path.basename(_text(f"{base}/master"))


def speed_of(sys: str, name: str) -> float | None:
    """Bytes per second of a link, 0 if it is down and carries nothing; None for a virtual one, which reports -1 or
    refuses the read."""
    base = f"{sys}/class/net/{name}"
    if _text(f"{base}/operstate") in _DOWN:
        return 0.0
    try:
        speed = int(_text(f"{base}/speed"))
    except ValueError:
        return None
    return speed * _MEGABIT if speed > 0 else None


def link_speed(sys: str, names: frozenset[str]) -> float | None:
    """Sum of the speeds of these links; None if one with counted traffic is unknown, or if none is up."""
    speeds = [speed_of(sys, name) for name in names]
    known = [speed for speed in speeds if speed is not None]
    return (sum(known) or None) if len(known) == len(speeds) else None


def _text(path: str) -> str:
    try:
        return read_once(path).decode("ascii", "replace").strip()
    except OSError:
        return ""


def total(rates: list[tuple[float, int]]) -> tuple[float, int]:
    """Sum over interfaces: a new one adds nothing yet, one that was reset leaves no sum, one with an
    impossible amount no valid sum."""
    for code in (RESET, MISSING):
        if any(code == each for _, each in rates):
            return NAN, code
    if all(code == FIRST for _, code in rates):
        return NAN, FIRST if rates else MISSING
    found = 0.0
    for value, code in rates:  # one after the other: sum() of later Pythons rounds differently
        if code != FIRST:
            found += value
    return found, RATE if any(code == RATE for _, code in rates) else VALID


class NetworkFigures:
    """The host's traffic and link speed."""

    metrics = (*TRAFFIC, LINK_SPEED)

    def __init__(self, proc: str = "/proc", sys: str = "/sys") -> None:
        self._traffic = Traffic(proc)
        self._sys = sys
        self._counters = CounterMemory()
        self.names: tuple[str, ...] = ()  #: the counted interfaces, in order
        self.limits: tuple[float, ...] = ()  #: bytes per second of each in each direction
        self.speed: float | None = None  #: of their links together
        self._age = _REFRESH

    @property
    def files(self) -> tuple[OpenFile, ...]:
        """Files read."""
        return (self._traffic.file,)

    def look(self) -> bool:
        """Look for interfaces again when due; returns whether it was. Call once for each reading."""
        self._age += 1
        if self._age <= _REFRESH:
            return False
        self._age = 1
        names = physical(self._sys)
        self.names, self.speed = tuple(sorted(names)), link_speed(self._sys, names)
        self.limits = tuple(speed_of(self._sys, name) or UNKNOWN_LINK for name in self.names)
        return True

    def look_soon(self) -> None:
        """Look again before the next reading: a link may have become faster."""
        self._age = _REFRESH

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        self.look()
        row[LINK_SPEED] = gauge(self.speed)
        try:
            traffic = self._traffic.read()
        except OSError:
            traffic = {}
        longest = growth(seconds)
        most = {name: limit * longest for name, limit in zip(self.names, self.limits, strict=True) if name in traffic}
        for column, metric in enumerate(TRAFFIC):
            row[metric] = total(
                [
                    self._counters.rate(f"{name}{column}", traffic[name][column], seconds, most=bytes_)
                    for name, bytes_ in most.items()
                ]
            )
            if row[metric][1] == RATE:
                self.look_soon()
        self._counters.keep([f"{name}{column}" for column in range(len(TRAFFIC)) for name in most])

    def close(self) -> None:
        """See ``Figures``."""
        self._traffic.close()
