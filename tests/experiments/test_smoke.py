"""A small real run of a program: its exit code, and the numbers of its document that pages quote."""

from __future__ import annotations

import json

import pytest

from acquisition.errors import EXIT_FAILURE, EXIT_OK, EXIT_UNAVAILABLE
from experiments.figures.kinds import find
from experiments.processes.needs import LACKS
from tests.support.programs import main_of
from tests.support.untested import require

#: Program -> arguments, tools that it needs, and numbers of its document.
RUNS: dict[str, tuple[str, str, list[str]]] = {
    "archive_cost": ("--only episodes sqlite --episodes 500", "", ["sqlite.episodes.new_rows_per_second"]),
    "archive_live": (
        "--row backlog --hosts 3 --entities 4 --metrics 2 --ticks 65", "", ["milliseconds_per_million.archiver", "gap"],
    ),
    "beside": (
        "--hosts 2 --seconds 2 --only dead", "prometheus prometheus-node-exporter prometheus-process-exporter",
        ["truth.dead.counts.d: shardpulse.asked", "truth.dead.counts.a: 1 s.wrong"],
    ),
    "inputs_cost": (
        "--hosts 4 --entities 5 --metrics 3 --ticks 2 --together 4 --no-memory", "", ["together.4.to_off.shipped"],
    ),
    "log_cost": (
        "--vms 5 --iterations 4 --rounds 2 --loops probe", "", ["loops.probe.to_none.shipped.high"],
    ),
    "scale": (
        "--rows writers --quick --seconds 1", "",
        ["rows.writers.ratio", "rows.writers.samples_lost", "rows.writers.freshness_ms.p99"],
    ),
    "serve_load": (
        "--hosts 3 --entities 3 --metrics 2 --seconds 1 --warm-up 5", "wrk",
        ["loads.hot.requests_per_second", "loads.hot.p99", "bare.requests_per_second"],
    ),
}  # fmt: skip


@pytest.mark.few
@pytest.mark.parametrize("name", RUNS)
def test_small_run_answers_what_is_quoted(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, tools, numbers = RUNS[name]
    require(*tools.split())
    code = main_of(name)([*arguments.split(), "--json"])
    said = capsys.readouterr()
    if code == EXIT_UNAVAILABLE and LACKS in said.err:
        pytest.skip(said.err.strip())
    document = json.loads(said.out.splitlines()[-1])
    assert code == (EXIT_OK if document.get("passed", True) else EXIT_FAILURE)
    assert document.get("failures", []) == []
    assert [path for path in numbers if find(document, path) is None] == []
