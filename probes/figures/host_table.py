"""Host figures read together by ``_process_step.c``, in one call.

It does the same as the groups of figures here one by one.

Figures unknown to it, such as those added later, are left to the groups themselves; so are huge pages unless
/proc/meminfo reports that there are none.
"""

from __future__ import annotations

from array import array
from os import fsencode

from acquisition.model.codes import MISSING, NAN, RATE
from acquisition.model.metric import Metric
from probes.checks.rate import growth
from probes.figures.agreed import HOST_FIGURES, HOST_GROUPS, LINK, PROCESSES, Group
from probes.figures.hugepages import HugepageFigures
from probes.figures.network import NetworkFigures
from probes.figures.row import Figures
from probes.sampling.host_facts import HostFacts
from probes.sampling.procfs import OpenFile

_NONE = 255  #: number of a figure that is not included
_VALUE = 8  #: bytes of a float64


class HostTable:
    """Reads the known ones of ``groups`` into rows with these ``metrics``."""

    def __init__(self, groups: list[Figures], metrics: tuple[Metric, ...], facts: HostFacts) -> None:
        assert PROCESSES is not None
        self._step = PROCESSES
        known: dict[type[object], Group] = {type(group): group for group in groups if isinstance(group, Group)}
        self._unknown = [group for group in groups if not isinstance(group, Group)]
        self._files: list[OpenFile | None] = []
        for kind, files in HOST_GROUPS.items():
            self._files += known[kind].files if kind in known else [None] * len(files)
        network = known.get(NetworkFigures)
        self._network = network if isinstance(network, NetworkFigures) else None
        self._page_size, self._hertz = float(facts.page_size), float(facts.hertz)
        given = {name for group in known.values() for name in group.metrics}
        names = [metric.name for metric in metrics]
        self._columns = bytes(HOST_FIGURES.index(name) if name in given else _NONE for name in names)
        huge = known.get(HugepageFigures)
        self._huge = None if huge is None else (huge, next(i for i, n in enumerate(names) if n in huge.metrics))
        self._blank = bytes(_VALUE * len(names))
        self._descriptors = (-1,) * len(self._files)
        self._record = bytearray(self._step.HOST_RECORD)
        self._links = bytearray()
        self._speed = NAN

    def read(self, seconds: float) -> tuple[array[float], bytearray]:
        """Figures and their codes; ``seconds`` as for ``Figures``. Those of ``rest`` are not included."""
        if self._network is not None and self._network.look():
            self._follow(self._network)
        if -1 in self._descriptors:
            self._descriptors = tuple(map(_descriptor, self._files))
        values, codes = array("d", self._blank), bytearray(len(self._columns))
        self._step.read_host(
            self._descriptors,
            self._record,
            self._links,
            seconds,
            growth(seconds),
            self._hertz,
            self._page_size,
            self._speed,
            self._columns,
            values,
            codes,
        )
        if self._network is not None and RATE in codes:
            self._network.look_soon()
        return values, codes

    def rest(self, codes: bytearray) -> list[Figures]:
        """Groups missing in a reading with these codes."""
        if self._huge is not None and codes[self._huge[1]] == MISSING:
            return [*self._unknown, self._huge[0]]
        return self._unknown

    def _follow(self, network: NetworkFigures) -> None:
        """Other interfaces may count now; those counted before continue."""
        self._speed = NAN if network.speed is None else network.speed
        links = self._links
        kept = {name: counts for name, _, *counts in LINK.iter_unpack(links)}
        names = [LINK.unpack(LINK.pack(fsencode(name), 0, 0, 0, 0))[0] for name in network.names]
        limits = zip(names, network.limits, strict=True)
        self._links = bytearray().join([LINK.pack(name, limit, *kept.get(name, (0, 0, 0))) for name, limit in limits])


def _descriptor(file: OpenFile | None) -> int:
    try:
        return -1 if file is None else file.fileno()
    except OSError:
        return -1
