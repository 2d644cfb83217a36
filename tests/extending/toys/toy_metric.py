"""A metric of the host as a newcomer adds it: the one-minute load average from /proc/loadavg (proc(5))."""

from __future__ import annotations

from acquisition.model.metric import GAUGE, Metric
from probes.figures.row import Row, gauge
from probes.sampling.host_facts import HostFacts
from probes.sampling.procfs import OpenFile

METRICS = (Metric("load_average_1m", "tasks", GAUGE, 0.0, 4194304.0, "tasks that run or want to, over a minute"),)


def create(facts: HostFacts) -> LoadFigures:
    """See ``probes.metrics.HOST_FIGURES``."""
    return LoadFigures(facts.proc)


class LoadFigures:
    """/proc/loadavg."""

    metrics = ("load_average_1m",)

    def __init__(self, proc: str) -> None:
        self._file = OpenFile(f"{proc}/loadavg")

    def read(self, seconds: float, row: Row) -> None:
        """See ``Figures``."""
        del seconds
        try:
            row["load_average_1m"] = gauge(float(self._file.read().split()[0]))
        except (OSError, ValueError, IndexError):
            return

    def close(self) -> None:
        """See ``Figures``."""
        self._file.close()
