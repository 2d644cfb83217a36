"""Network interfaces from /proc/net/dev, link speeds from /sys/class/net.

See proc(5).
"""

from __future__ import annotations

import os
import re

from probes.figures.network import LINK_SPEED, TRAFFIC, physical, speed_of
from probes.figures.row import CounterMemory, Row, gauge
from probes.sampling.procfs import OpenFile, whole
from probes.sources import Request
from probes.sources.parts import PartSource

#: Names and links are checked again after this number of readings.
_REFRESH = 60
#: metric -> its field after the name of the interface
FIELDS = {
    TRAFFIC[0]: 0,
    TRAFFIC[1]: 8,
    "network_receive_errors_per_second": 2,
    "network_transmit_errors_per_second": 10,
    "network_receive_drops_per_second": 3,
    "network_transmit_drops_per_second": 11,
}


def create(request: Request) -> InterfaceSource:
    """See ``probes.sources``."""
    return InterfaceSource(request)


class InterfaceSource(PartSource):
    """Interfaces with names that match the request; without any, those counted for the host."""

    kind = "interface"

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._dev = OpenFile(f"{request.facts.proc}/net/dev")
        self._sys = request.facts.sys
        self._patterns = [re.compile(name) for name in request.options["names"]]
        self._counters: dict[str, CounterMemory] = {}
        self._physical: frozenset[str] = frozenset()
        self._speeds: dict[str, float | None] = {}
        self._age = _REFRESH

    def rows(self, seconds: float) -> dict[str, Row]:
        """See ``PartSource``."""
        self._age += 1
        if self._age > _REFRESH:
            self._age, self._physical, self._speeds = 1, physical(self._sys), {}
        lines = {name: fields for name, fields in parse(self._dev.read()).items() if self._fits(name)}
        self._counters = {name: self._counters.get(name) or CounterMemory() for name in lines}
        return {name: self._row(name, fields, seconds) for name, fields in lines.items()}

    def _fits(self, name: str) -> bool:
        return any(each.match(name) for each in self._patterns) if self._patterns else name in self._physical

    def _row(self, name: str, fields: list[bytes], seconds: float) -> Row:
        if name not in self._speeds:
            self._speeds[name] = speed_of(self._sys, name)
        rate = self._counters[name].rate
        row = {metric: rate(metric, whole(fields[field]), seconds) for metric, field in FIELDS.items()}
        row[LINK_SPEED] = gauge(self._speeds[name])
        return row

    def close(self) -> None:
        """See ``Source``."""
        self._dev.close()


def parse(text: bytes) -> dict[str, list[bytes]]:
    """Fields after each name in /proc/net/dev; incomplete lines are left out."""
    found = {}
    for line in text.splitlines():
        name, colon, rest = line.rpartition(b":")
        fields = rest.split()
        if colon and len(fields) > max(FIELDS.values()):
            found[os.fsdecode(name.strip())] = fields
    return found
