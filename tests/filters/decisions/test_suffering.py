"""A guest in its own CPU limit makes no host hot, by whatever is derived from the delay of its vCPUs."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from filters.decisions.overload_detection import threshold
from filters.decisions.picture import VALID, Host, Reading
from filters.decisions.verdict import Outcome
from probes.figures.vms_suffering import VmsSuffering
from tests.support.sampled_guest import SampledGuest


@pytest.mark.parametrize("metric", ["vms_suffering_ratio", "vms_worst_suffering_ratio"])
@pytest.mark.parametrize(("capped", "outcome"), [(True, Outcome.NOT_HOT), (False, Outcome.HOT)])
def test_capped_guest_alone_makes_no_host_hot(tmp_path: Path, metric: str, capped: bool, outcome: Outcome) -> None:
    host = SampledGuest(tmp_path)
    figures = VmsSuffering(host.facts)
    rule = threshold.Parameters(metric=metric, high=0.3, enter=0.3, low=0.2, k=0, plateau=0)
    with closing(host.source):
        host.guest()
        host.cgroups = "0::/limited\n"
        for tick in range(4):
            spent = (tick + 1) * 700_000 if capped else 0
            host.proc.cgroup("limited", f"nr_periods {(tick + 1) * capped}\nnr_throttled 1\nthrottled_usec {spent}\n")
            for thread in (1, 2):
                host.had_more(thread, 0.3, 0.35)  # both wait as long in either case
            host.values()
        row: dict[str, tuple[float, int]] = {}
        figures.read(1.0, row)
    reading = Reading(metric, mean=row[metric][0], last=row[metric][0], validity=VALID, stale_seconds=0.0)
    assert threshold.RULE.judge(Host("1", "h", readings={metric: reading}), rule).outcome is outcome
