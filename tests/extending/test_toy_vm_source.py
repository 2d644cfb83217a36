"""A source of virtual machines: one file, one line in REGISTRY, one fixture, one test; found wherever users look."""

from __future__ import annotations

import json

from tests.support.extended_tree import ExtendedPipeline, ExtendedTree
from tests.support.waiting import eventually

UUID, CORES, VCPUS = "11111111-0000-0000-0000-000000000001", 0.75, 2.0  #: of the fixture


def test_the_configuration_knows_it(tree: ExtendedTree) -> None:
    config = tree.directory / "vm_source.toml"
    config.write_text('[probe.vms]\nsource = "toy"\n')
    printed = tree.printed("config", "--file", config)
    assert 'source = "toy"' in printed[printed.index("[probe.vms]") :]


def test_fixture(tree: ExtendedTree) -> None:
    config = tree.directory / "vm_source.toml"
    off = "enabled = false\n"
    config.write_text(f'[probe.host]\n{off}[probe.processes]\n{off}[probe.vms]\nsource = "toy"\n')
    (line, *_) = tree.printed("probe", "--dry-run", "--ticks", 1, "--config", config).splitlines()
    (vm,) = json.loads(line)["entities"]
    assert (vm["kind"], vm["name"], vm["stable"]) == ("vm", "cubist", UUID)
    assert vm["metrics"] == {"cpu_ratio": CORES, "vcpu_count": VCPUS}


def test_readers_see_its_machines(pipeline: ExtendedPipeline) -> None:
    rows = eventually(lambda: pipeline.query("--entity", UUID, "--metric", "cpu_ratio", "vcpu_count"))
    assert {row["metric"]: row["last"] for row in rows} == {"cpu_ratio": CORES, "vcpu_count": VCPUS}
    found = eventually(lambda: pipeline.get(f"/v1/entities/{rows[0]['id']}?reading=latest"))
    assert UUID in found
    eventually(lambda: 'entity="cubist"' in pipeline.get("/metrics"))
    assert json.loads(pipeline.get("/v1/hosts?reading=latest&host=extended"))["hosts"][0]["sets"][2]["source"] == "toy"
