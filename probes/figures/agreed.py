"""Agreement of ``_process_step.c`` with Python: one table, compared at import.

``PROCESSES`` is that of ``probes.sampling.native``, once it agrees.
"""

from __future__ import annotations

import struct

from acquisition import compiled
from acquisition.model import codes
from probes.checks.rate import ALL_TICKS, MOST_CPUS, TOLERANCE
from probes.figures.host_figures import CPU_JITTER_TICKS, MOST_CORES, CpuFigures, MemoryFigures, PagingFigures
from probes.figures.hugepages import HugepageFigures
from probes.figures.network import NetworkFigures
from probes.figures.pressure import PressureFigures
from probes.figures.process_files import JITTER_TICKS, LONG, SHORT
from probes.figures.process_row import FILES
from probes.metrics import PROCESSES as PROCESS_SET
from probes.sampling import native
from probes.sampling.procfs import NUMBER_WITHIN

Group = CpuFigures | MemoryFigures | PagingFigures | NetworkFigures | PressureFigures | HugepageFigures
#: Groups of host figures read in C, and the files of each below /proc.
HOST_GROUPS: dict[type[Group], tuple[str, ...]] = {
    CpuFigures: ("stat",),
    MemoryFigures: ("meminfo",),
    PagingFigures: ("vmstat",),
    NetworkFigures: ("net/dev",),
    PressureFigures: ("pressure/cpu", "pressure/memory", "pressure/io"),
    HugepageFigures: (),
}
#: Figures of these groups, by their numbers in C.
HOST_FIGURES = tuple(name for group in HOST_GROUPS for name in group.metrics)

_LINK_FIELDS = (("name", "32s"), ("most", "d"), ("received", "Q"), ("sent", "Q"), ("has", "Q"))
#: An interface: its name, its speed in bytes per second, bytes received and sent at the previous tick, and whether
#: there are any.
LINK = struct.Struct("<" + "".join(code for _, code in _LINK_FIELDS))


def table() -> dict[str, object]:
    """Definitions by their names in C."""
    link = compiled.offsets(_LINK_FIELDS)
    return {
        "VALID": codes.VALID,
        "MISSING": codes.MISSING,
        "FIRST": codes.FIRST,
        "RESET": codes.RESET,
        "RATE": codes.RATE,
        "STUCK": codes.STUCK,
        "UNREADABLE": codes.UNREADABLE,
        "PROCESS_METRICS": tuple(metric.name for metric in PROCESS_SET.metrics),
        "PROCESS_FILES": FILES,
        "SHORT": SHORT,
        "LONG": LONG,
        "JITTER_TICKS": JITTER_TICKS,
        "HOST_FIGURES": HOST_FIGURES,
        "FILES_OF_HOST": tuple(name for files in HOST_GROUPS.values() for name in files),
        "CPU_JITTER": CPU_JITTER_TICKS,
        "ALL_TICKS": ALL_TICKS,
        "TOLERANCE": TOLERANCE,
        "MOST_CPUS": MOST_CPUS,
        "MOST_CORES": MOST_CORES,
        "NUMBER_WITHIN": NUMBER_WITHIN,
        "sizeof Link": LINK.size,
        "Link.most": link["most"],
        "Link.bytes": link["received"],
        "Link.has": link["has"],
    }


PROCESSES = None if native.PROCESSES is None else compiled.agree(native.PROCESSES, table())
