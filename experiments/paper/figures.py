"""Figures of the series, in the order of the report."""

from experiments.paper import collapse, hosts, indexes, one_probe, sets, storage
from experiments.paper.figure import Figure
from experiments.paper.fitted import FITS
from experiments.paper.simulation import SIMULATION
from experiments.paper.snapshots import SNAPSHOT
from experiments.paper.speedup import SPEEDUP

FIGURES: tuple[Figure, ...] = (
    one_probe.PROBE_OVER_TIME,
    one_probe.DATABASE_OVER_TIME,
    indexes.PROBE_OVER_INDEXES,
    indexes.DATABASE_OVER_INDEXES,
    hosts.MEASURED,
    hosts.FITTED,
    sets.PROBES_OVER_SETS,
    sets.DATABASE_OVER_SETS,
    collapse.FIGURE,
    SPEEDUP,
    SNAPSHOT,
    FITS,
    SIMULATION,
    storage.STORAGE,
)
