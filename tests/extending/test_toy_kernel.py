"""A kernel of another package, one file and one registration: whoever reads shows its figure, unchanged."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acquisition.errors import EXIT_CONFIG
from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from experiments.harness.chromium import chromium
from tests.extending.conftest import Toys
from tests.support import ROOT
from tests.support.other_package import shardpulse
from tests.support.page_scene import Data
from tests.support.processes import started
from tests.support.waiting import eventually

from tests.support.data_center import Guest, Machine  # isort: skip  # page_scene makes it importable
from tests.support.serving import Serving  # isort: skip
from tests.support.untested import require  # isort: skip

KERNELS = '[filter]\nkernels = ["last", "mean", "variance", "trend", "peak"]\n'
BEFORE, NOW = 4.0, 0.5  #: cores that the VM uses
ROWS = """
import json, sys
from acquisition.snapshot import SnapshotReader
with SnapshotReader.connect(sys.argv[1].split(",")) as reader:
    snapshot = reader.latest()
    row = next(snapshot.rows(resource_set="vms", metric="cpu_ratio"))
    table = snapshot.matrix("vms", "cpu_ratio")
    extra = {name: column.tolist() for name, column in table.extra.items()}
    print(json.dumps([row.mean, row.deviation, row.trend, row.last, row.extra, extra]))
"""


@pytest.fixture
def machine(cluster: Cluster) -> Machine:
    return Machine(cluster, "busy", [Guest("web", BEFORE, 2)])


@pytest.fixture
def service(toys: Toys, tmp_path: Path, shards: Shards, cluster: Cluster, machine: Machine) -> Iterator[Serving]:
    """A host with a VM whose load has fallen, a filter that runs the kernel, and a service."""
    toys.add("kernel")
    with Serving(tmp_path, shards.addresses, KERNELS) as serving, Data(cluster, [machine], smooths=False):
        command = [sys.executable, "-m", "acquisition", "filter", "--config", str(tmp_path / "shardpulse.toml")]
        with started(command):
            eventually(lambda: reading(serving, machine), 30)
            machine.guests = (Guest("web", NOW, 2),)
            eventually(lambda: reading(serving, machine)["mean"] < BEFORE / 2, 30)
            yield serving


def reading(serving: Serving, machine: Machine) -> dict[str, Any]:
    """The CPU of the VM as the service shows it; empty while there is none."""
    found = serving.ask(f"/v1/hosts/{machine.id}").json
    entities = found.get("host", {}).get("entities", [])
    shown: dict[str, Any] = entities[0]["readings"]["cpu_ratio"] if entities else {}
    return shown if shown.get("mean") is not None else {}


def command(directory: Path, *arguments: str) -> str:
    return shardpulse(*arguments, "--config", str(directory / "shardpulse.toml"))


def test_whoever_reads_shows_it(service: Serving, tmp_path: Path, machine: Machine, shards: Shards) -> None:
    in_python(shards)
    over_http(service, machine)
    in_commands(tmp_path)
    for_prometheus(service, tmp_path)
    require("chromium")
    on_the_page(service, machine)


def in_python(shards: Shards) -> None:
    addresses = ",".join(map(str, shards.addresses))
    done = subprocess.run(
        [sys.executable, "-c", ROWS, addresses], capture_output=True, check=True, cwd=ROOT, timeout=60
    )
    mean, deviation, trend, last, extra, columns = json.loads(done.stdout)
    assert NOW < mean < BEFORE
    assert deviation > 0.0 > trend
    assert last == NOW
    assert extra == {"peak": BEFORE}
    assert columns == {"peak": [BEFORE]}


def over_http(service: Serving, machine: Machine) -> None:
    assert reading(service, machine)["extra"] == {"peak": BEFORE}
    assert service.ask("/v1/figures").json["figures"][-1] == {
        "name": "peak", "help": "greatest valid value so far", "unit": None, "per_second": False, "extra": True,
    }  # fmt: skip
    (block,) = service.ask("/v1/snapshot?set=vms&metric=cpu_ratio&fields=peak").json["blocks"]
    assert (block["extra"], "mean" in block) == ({"peak": [[BEFORE]]}, False)
    answer = service.ask("/v1/hosts?metric=cpu_busy_ratio&fields=mean,peak").json
    assert answer["hosts"][0]["readings"]["cpu_busy_ratio"]["extra"] == {"peak": None}
    description = service.ask("/openapi.json").json
    shown = description["components"]["schemas"]["ReadingDocument"]["properties"]["extra"]
    assert "peak: greatest valid value so far" in shown["description"]
    (fields,) = (each for each in description["paths"]["/v1/hosts"]["get"]["parameters"] if each["name"] == "fields")
    assert "peak" in fields["schema"]["items"]["enum"]


def in_commands(directory: Path) -> None:
    (row,) = json.loads(command(directory, "query", "--set", "vms", "--metric", "cpu_ratio", "--json"))["rows"]
    assert row["extra"] == {"peak": BEFORE}
    titles, line = command(directory, "query", "--set", "vms", "--metric", "cpu_ratio").splitlines()
    assert line.split()[titles.split().index("PEAK")] == f"{BEFORE:g}"
    titles, line = command(directory, "top", "--host", "busy", "--once").splitlines()[-2:]
    assert line.split()[titles.split().index("PEAK")] == "400%"
    assert " peak 400% " in command(directory, "top", "--host", "busy", "--lines", "--count", "1")
    (shown,) = json.loads(command(directory, "top", "--host", "busy", "--json"))["rows"]
    assert shown["extra"] == {"peak": BEFORE}


def for_prometheus(service: Serving, directory: Path) -> None:
    of_hosts = service.ask("/metrics").body.decode()
    assert "# HELP shardpulse_host_cpu_idle_peak_ratio" in of_hosts
    assert "shardpulse_vms_cpu_peak_ratio" not in of_hosts
    for text in (service.ask("/metrics?figure=peak").body.decode(), command(directory, "metrics", "--figure", "peak")):
        (line,) = (line for line in text.splitlines() if line.startswith("shardpulse_vms_cpu_peak_ratio{"))
        assert float(line.split()[-1]) == BEFORE


def on_the_page(service: Serving, machine: Machine) -> None:
    table, words = "document.querySelector('#host table').textContent", "document.getElementById('host').textContent"
    with chromium() as page:
        page.size(1280, 1000)
        page.open(f"{service.url}/#host={machine.id}")
        page.until(f"document.querySelector('#host table') !== null && {table}.includes('CPU peak')", 20)
        page.until(f"{table}.includes('400')", 20)  # the unit of this scene's metric is a ratio
        page.evaluate("[...document.querySelectorAll('#host tbody button')][0].click()")
        page.until(f"{words}.includes('peak 400')", 20)
        assert page.problems == []


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("del KERNELS", "cannot load entry point toy_kernel = toy_kernel:KERNELS of shardpulse.kernels"),
        ('KERNELS["other"] = KERNEL', "plane number 5 is taken or out of range"),
        ('KERNELS = {"trend": KERNEL}', "'trend' is registered twice"),
        ('KERNELS = {"peak": Kernel(Plane(0, "peak", ""))}', "plane number 0 is taken or out of range"),
        ('KERNELS = {"median": Kernel(Plane(5, "median", ""))}', "name 'median' is taken or invalid"),
        ('KERNELS = {"peak": Kernel(Plane(5, "a b", ""))}', "name 'a b' is taken or invalid"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_read(
    toys: Toys, tmp_path: Path, line: str, message: str
) -> None:
    toys.add("kernel")
    with (tmp_path / "packages" / "toy_kernel.py").open("a") as file:
        file.write(f"{line}\n")
    asked = [sys.executable, "-m", "acquisition", "metrics", "--shards", "127.0.0.1:1"]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    assert message in done.stderr
    assert done.returncode == EXIT_CONFIG
