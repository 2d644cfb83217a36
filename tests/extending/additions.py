"""What a newcomer adds for each kind that the probe can be extended by: the file, and the line that registers it."""

from __future__ import annotations

from tests.support.extended_tree import Addition

METRIC = Addition(
    "toy_metric.py",
    "probes/figures/toy_metric.py",
    "probes/metrics/__init__.py",
    ', "probes.figures.vms_suffering")',
    ', "probes.figures.vms_suffering", "probes.figures.toy_metric")',
)
CHECK = Addition(
    "toy_check.py", "probes/checks/toy_check.py", "probes/checks/__init__.py", ', "first")', ', "first", "toy_check")'
)
_PLACE = '    ("vms", "procfs"): Registered("probes.sources.procfs_vms"),\n'


def _source(name: str, line: str) -> Addition:
    return Addition(
        f"{name}.py", f"probes/sources/{name}.py", "probes/sources/__init__.py", _PLACE, f"{_PLACE}    {line}\n"
    )


SOURCE = _source("toy_source", '("processes", "toy"): Registered("probes.sources.toy_source"),')
BLOCKING = _source(
    "toy_blocking_source", '("vms", "blocking"): Registered("probes.sources.toy_blocking_source", blocks=True),'
)
