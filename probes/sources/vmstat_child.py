"""Host source from vmstat in a child, with /proc for what it lacks.

Memory and swap in use are taken from /proc/meminfo as well, read at the same moment (it has to be read anyway for
the rest): vmstat of procps 4.0.2, in Debian 12, repeats its first figures of them forever.

A line belongs to the interval in which it ended: the reading is made when the line
arrives. The first line is an average since boot and not a sample. A line that cannot be read is UNREADABLE in
its columns; the figures of /proc beside it count.
"""

from __future__ import annotations

from array import array

from acquisition.model.metric import ResourceSet
from probes.figures.host_figures import MemoryFigures
from probes.figures.row import Row, wanted
from probes.metrics import VMSTAT_METRICS
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import Request
from probes.sources.procfs_host import all_figures, host_entity
from probes.tools.tool_child import OneChild, ToolChild, find_tool
from probes.tools.vmstat import VmstatParser

#: Metrics taken from a line of vmstat.
_FROM_VMSTAT = frozenset(VMSTAT_METRICS).difference(MemoryFigures.metrics)


def create(request: Request) -> VmstatSource | None:
    """See ``probes.sources``; None, with a report, if vmstat cannot do it."""
    path = find_tool("vmstat")
    if path is None:
        request.report("vmstat is not installed (Debian: procps): reading the host from /proc instead")
        return None
    if request.interval < 1 or request.interval != int(request.interval):
        request.report(f"vmstat cannot sample every {request.interval:g} s: reading the host from /proc instead")
        return None
    # -w prints guest time in its own column if vmstat can (procps 4)
    command = [path, "-n", "-w", str(int(request.interval))]
    return VmstatSource(request.resource_set, request.facts, ToolChild(command, request.report), request.interval)


class VmstatSource(OneChild):
    """One vmstat, and the figures of /proc for its lines."""

    name = "vmstat"

    def __init__(self, resource_set: ResourceSet, facts: HostFacts, child: ToolChild, interval: float) -> None:
        super().__init__(resource_set, child, [host_entity(facts)])
        self._interval = interval
        self._facts = facts
        self._parser = VmstatParser(resource_set)
        more = tuple(metric for metric in resource_set.metrics if metric.name not in _FROM_VMSTAT)
        self._more = {metric.name: resource_set.metrics.index(metric) for metric in more}
        self._figures = wanted(all_figures(facts), ResourceSet(resource_set.name, more))
        self._last = 0.0

    def begin(self) -> None:
        """See ``OneChild``."""
        self._parser = VmstatParser(self._set)

    def take(self, lines: list[bytes], wall: float, monotonic: float) -> Reading | None:
        """See ``OneChild``."""
        newest = None
        rejected = self._parser.rejected.count
        for line in lines:
            newest = self._parser.feed(line) or newest
        if newest is not None:
            self._child.works()
            return self._reading(newest.values, newest.codes, wall, monotonic)
        odd = self._parser.parsed and self._parser.rejected.count > rejected
        if odd and monotonic - self._last > self._interval / 2:
            return self._reading(*self._parser.unreadable(), wall, monotonic)
        return None

    def _reading(self, values: list[float], codes: bytearray, wall: float, monotonic: float) -> Reading:
        seconds = monotonic - self._last if self._last else 0.0
        self._last = monotonic
        row: Row = {}
        for group in self._figures:
            group.read(seconds, row)
        for name, column in self._more.items():
            if name in row:
                values[column], codes[column] = row[name]
        facts, figures = self._facts, array("d", values)
        return Reading(
            self._set, self._entities, figures, codes, wall, monotonic, seconds, facts.cores, facts.memory_bytes
        )

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {**super().account(), "rejected_lines": self._parser.rejected.count}

    def close(self) -> None:
        """See ``Source``."""
        super().close()
        for figures in self._figures:
            figures.close()
