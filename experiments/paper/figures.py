"""The figures of the series, in the order of the report."""

from experiments.paper import one_probe
from experiments.paper.figure import Figure

FIGURES: tuple[Figure, ...] = (one_probe.PROBE_OVER_TIME, one_probe.DATABASE_OVER_TIME)
