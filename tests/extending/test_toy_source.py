"""A source of processes: one file, one line in REGISTRY, one fixture, one test; found wherever users look."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from acquisition.errors import EXIT_CONFIG
from tests.support import ROOT
from tests.support.extended_tree import ExtendedPipeline, ExtendedTree
from tests.support.other_package import on_path
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
    assert "key probe.host.source: invalid enum value 'toy'; expected one of auto, procfs, vmstat" in done.stderr


def test_one_of_another_package_is_refused(tmp_path: Path) -> None:
    """The agent runs without the packages that are installed, and says so before it starts."""
    about = tmp_path / "foreign-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: foreign\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[shardpulse.sources]\nforeign = foreign:SOURCES\n")
    (tmp_path / "foreign.py").write_text('SOURCES = {("vms", "foreign"): None}\n')
    config = tmp_path / "c.toml"
    config.write_text('[probe.vms]\nsource = "foreign"\n')
    done = subprocess.run(
        [sys.executable, "-m", "acquisition", "probe", "--dry-run", "--config", str(config)], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": on_path(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == EXIT_CONFIG
    assert "key probe.vms.source: the probe runs only the sources of its own package" in done.stderr


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
