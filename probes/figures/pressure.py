"""Pressure stall information (PSI) from /proc/pressure.

See Documentation/accounting/psi.rst.

The kernel's ``total`` is microseconds of stall since boot: its growth over the measured
interval is the share of the time that was lost, without the averaging of avg10.
"""

from __future__ import annotations

from acquisition.model.metric import COUNTER, Metric
from probes.figures.row import CounterMemory, Row
from probes.sampling.host_facts import HostFacts
from probes.sampling.procfs import OpenFile, whole

_MICROSECOND = 1e-6
#: metric -> file, line
LINES: dict[str, tuple[str, bytes]] = {
    "pressure_cpu_some_ratio": ("cpu", b"some"),
    "pressure_memory_some_ratio": ("memory", b"some"),
    "pressure_memory_full_ratio": ("memory", b"full"),
    "pressure_io_some_ratio": ("io", b"some"),
    "pressure_io_full_ratio": ("io", b"full"),
}


def _pressure(name: str, text: str) -> Metric:
    # stall time and interval come from two clocks: a fully stalled interval is about 1.0
    return Metric(name, "ratio", COUNTER, 0.0, 1.05, text)


METRICS = (
    _pressure("pressure_cpu_some_ratio", "time for which some task waited for a core (PSI)"),
    _pressure("pressure_memory_some_ratio", "time for which some task waited for memory (PSI)"),
    _pressure("pressure_memory_full_ratio", "time for which all tasks waited for memory (PSI)"),
    _pressure("pressure_io_some_ratio", "time for which some task waited for I/O (PSI)"),
    _pressure("pressure_io_full_ratio", "time for which all tasks waited for I/O (PSI)"),
)


def create(facts: HostFacts) -> PressureFigures:
    """See ``probes.metrics.HOST_FIGURES``."""
    return PressureFigures(facts.proc)


def parse(text: bytes) -> dict[bytes, int]:
    """``some`` and ``full`` -> microseconds of stall since boot."""
    found = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(b" ")
        total = whole(rest.rpartition(b"total=")[2])
        if total is not None:
            found[kind] = total
    return found


class PressureFigures:
    """Pressure of the host; all MISSING if the kernel has none."""

    metrics = tuple(LINES)

    def __init__(self, proc: str = "/proc") -> None:
        self._files = {name: OpenFile(f"{proc}/pressure/{name}") for name, _ in LINES.values()}
        self.files = tuple(self._files.values())
        self._counters = CounterMemory()

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        # if the kernel has no PSI, or it is switched off (psi=0), the files are empty
        totals = {name: parse(file.read_if_there()) for name, file in self._files.items()}
        for metric, (name, line) in LINES.items():
            row[metric] = self._counters.rate(metric, totals[name].get(line), seconds, _MICROSECOND)

    def close(self) -> None:
        """See ``Figures``."""
        for file in self._files.values():
            file.close()
