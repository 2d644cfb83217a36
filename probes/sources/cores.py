"""CPU cores from /proc/stat (proc(5)): the same shares as the host's."""

from __future__ import annotations

from probes.figures.host_figures import core_ticks
from probes.figures.row import Row
from probes.sampling.procfs import OpenFile
from probes.sources import Request
from probes.sources.parts import CpuShares, PartSource


def create(request: Request) -> CoreSource:
    """See ``probes.sources``."""
    return CoreSource(request)


class CoreSource(PartSource):
    """All online cores."""

    kind = "core"

    def __init__(self, request: Request) -> None:
        super().__init__(request)
        self._stat = OpenFile(f"{request.facts.proc}/stat")
        self._shares = CpuShares(request.facts.hertz)

    def rows(self, seconds: float) -> dict[str, Row]:
        """See ``PartSource``."""
        ticks = core_ticks(self._stat.read())
        return self._shares.rows({f"cpu{core}": [each] for core, each in ticks.items()}, seconds)

    def close(self) -> None:
        """See ``Source``."""
        self._stat.close()
