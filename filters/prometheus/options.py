"""What of a snapshot is exposed: the cardinality that a Prometheus is asked to bear."""

from __future__ import annotations

from typing import NamedTuple

from filters.prometheus.naming import FIGURES, MEAN

HOSTS, ALL, NONE = "hosts", "all", "none"
#: Whose decision inputs are exposed.
INPUTS = (HOSTS, ALL, NONE)


class Options(NamedTuple):
    """``entities``: also the processes and VMs of the hosts; without, only what has one series per host.

    ``figures`` are those of entities, ``host_figures`` those of hosts (acquisition.wire.records.planes). ``inputs``:
    decision inputs of hosts, of entities as well (``all``), or of none.
    """

    entities: bool = True
    figures: tuple[str, ...] = (MEAN,)
    host_figures: tuple[str, ...] = tuple(FIGURES)
    inputs: str = HOSTS
