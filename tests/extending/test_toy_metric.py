"""A metric of the host: one file, one word in HOST_FIGURES, one fixture, one test; found wherever users look."""

from __future__ import annotations

import json

from acquisition.model.codes import VALID
from probes.figures.row import Row
from probes.sampling.host_facts import HostFacts
from tests.extending.toys import toy_metric
from tests.support.extended_tree import FIXTURES, ExtendedPipeline, ExtendedTree
from tests.support.waiting import eventually

NAME = "load_average_1m"


def test_fixture() -> None:
    row: Row = {}
    figures = toy_metric.create(HostFacts("h", proc=str(FIXTURES / "proc")))
    figures.read(1.0, row)
    assert row == {NAME: (0.42, VALID)}
    figures.close()


def test_the_configuration_takes_it(tree: ExtendedTree) -> None:
    config = tree.directory / "metric.toml"
    config.write_text(f'[probe.host]\nmetrics = ["{NAME}"]\n[filter.tau]\n{NAME} = 60.0\n')
    assert f'metrics = ["{NAME}"]' in tree.printed("config", "--file", config)
    dry = json.loads(tree.printed("probe", "--dry-run", "--ticks", 1, "--config", config).splitlines()[0])
    assert list(dry["entities"][0]["metrics"]) == [NAME]


def test_the_page_of_metrics_has_its_row(tree: ExtendedTree) -> None:
    assert f"| `{NAME}` | tasks | gauge | 0 | 4.1943e+06 | tasks that run" in tree.module("probes.metrics")


def test_readers_see_it(pipeline: ExtendedPipeline) -> None:
    rows = eventually(lambda: pipeline.query("--host", "extended", "--set", "host", "--metric", NAME))
    assert [(row["unit"], row["validity"]) for row in rows] == [("tasks", "VALID")]
    path = f"/v1/hosts?reading=latest&host=extended&metric={NAME}"
    hosts = eventually(lambda: json.loads(pipeline.get(path))["hosts"])
    assert hosts[0]["readings"][NAME]["unit"] == "tasks"
    lines = eventually(lambda: [line for line in pipeline.get("/metrics").splitlines() if NAME in line])
    assert any('host="extended"' in line for line in lines)


def test_a_tool_without_that_column_is_completed(tree: ExtendedTree) -> None:
    """vmstat prints no load average: it is read beside its lines."""
    config = tree.directory / "vmstat.toml"
    config.write_text(f'[probe.host]\nsource = "vmstat"\nmetrics = ["{NAME}", "tasks_runnable"]\n')
    done = tree.printed("probe", "--dry-run", "--ticks", 3, "--config", config)
    readings = [json.loads(line) for line in done.splitlines()]
    host = [each["entities"][0] for each in readings if each["resource_set"] == "host"]
    assert any(NAME in each["metrics"] for each in host)
