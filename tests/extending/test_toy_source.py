"""A source of processes: one file, one line in REGISTRY, one fixture, one test; found wherever users look."""

from __future__ import annotations

import json

from acquisition.errors import EXIT_CONFIG
from tests.support.extended_tree import ExtendedPipeline, ExtendedTree
from tests.support.waiting import eventually

EXPECTED = {"pointillist": 0.25, "fauvist": 1.5}  #: of the fixture


def test_the_configuration_knows_it(tree: ExtendedTree) -> None:
    assert '("auto" | "pidstat" | "procfs" | "toy")' in tree.printed("config")
    config = tree.directory / "source.toml"
    config.write_text('[probe.processes]\nsource = "toy"\n')
    assert 'source = "toy"' in tree.printed("config", "--file", config)
    config.write_text('[probe.host]\nsource = "toy"\n')
    done = tree.run("config", "--file", config)
    assert done.returncode == EXIT_CONFIG
    assert "key probe.host.source: invalid enum value 'toy'; known are auto, procfs, vmstat" in done.stderr


def test_fixture(tree: ExtendedTree) -> None:
    config = tree.directory / "source.toml"
    config.write_text('[probe.host]\nenabled = false\n[probe.processes]\nsource = "toy"\nmetrics = ["cpu_ratio"]\n')
    (line, *_) = tree.printed("probe", "--dry-run", "--ticks", 1, "--config", config).splitlines()
    assert {each["name"]: each["metrics"]["cpu_ratio"] for each in json.loads(line)["entities"]} == EXPECTED


def test_readers_see_its_processes(pipeline: ExtendedPipeline) -> None:
    rows = eventually(lambda: pipeline.query("--host", "extended", "--set", "processes", "--metric", "cpu_ratio"))
    assert {row["entity"]: row["last"] for row in rows} == EXPECTED
    missing = pipeline.query("--host", "extended", "--set", "processes", "--metric", "memory_ratio")
    assert {row["validity"] for row in missing} == {"MISSING"}
    path = "/v1/snapshot?reading=latest&host=extended&set=processes&metric=cpu_ratio"
    (block,) = eventually(lambda: json.loads(pipeline.get(path))["blocks"])
    assert [entity["name"] for entity in block["entities"]] == list(EXPECTED)
    hosts = json.loads(pipeline.get("/v1/hosts?reading=latest&host=extended"))["hosts"]
    assert [each["source"] for each in hosts[0]["sets"] if each["resource_set"] == "processes"] == ["toy"]
    eventually(lambda: 'entity="pointillist"' in pipeline.get("/metrics"))
