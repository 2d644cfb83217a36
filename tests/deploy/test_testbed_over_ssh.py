"""``experiments.testbed --inventory`` on two hosts with systemd: a pipeline over ssh, of which nothing stays there."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from experiments.hosts import Host
from experiments.hosts.site import PARTS, build_wheels
from experiments.processes import temporary
from tests.experiments.test_programs import command
from tests.support import ROOT
from tests.support.hosts.demanded import hosts_for_a_test
from tests.support.hosts.product import packed
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "openssl")]

BED = """
[hosts.node1]
shard = true
probe = true
link = { delay_seconds = 0.1 }

[hosts.node2]
filter = true
emulated = 2
"""
_INSTALL = f"""
set -e
systemctl disable --quiet --now redis-server
python3 -m venv /opt/shardpulse
/opt/shardpulse/bin/pip install --quiet --no-index --no-compile --find-links /root/wheels 'shardpulse[{PARTS}]'
"""


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Host]]:
    wheels = tmp_path_factory.mktemp("wheels")
    build_wheels(wheels)
    with hosts_for_a_test(tmp_path_factory.mktemp("hosts"), ["node1", "node2"], packages=["redis-server"]) as made:
        for host in made.values():
            host.ssh("tar -x -C /root", given=packed({"wheels": wheels}))
            host.ssh(_INSTALL, seconds=600)
        yield made


@pytest.fixture
def run(hosts: Mapping[str, Host], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> list[str]:
    """The command, but for the seconds."""
    config = next(tmp_path_factory.getbasetemp().glob("hosts*/ssh_config"))
    bed, inventory = tmp_path / "bed.toml", tmp_path / "inventory.json"
    bed.write_text(BED)
    addresses = {name: {"ansible_host": host.address} for name, host in hosts.items()}
    inventory.write_text(json.dumps({"all": {"hosts": addresses, "vars": {"ansible_ssh_common_args": f"-F {config}"}}}))
    options = ["--inventory", str(inventory), "--python", "/opt/shardpulse/bin/python", "--json"]
    return command("testbed", str(bed), *options)


def is_clean(host: Host) -> bool:
    """Whether no process and no directory of a testbed is there."""
    found = host.ssh(f"ls -d /tmp/{temporary.PREFIX}* 2>/dev/null; pgrep -af '{temporary.PREFIX}|experiments' || true")
    return not [line for line in found.splitlines() if "pgrep" not in line]


def test_a_pipeline_runs_over_ssh(hosts: Mapping[str, Host], run: list[str]) -> None:
    done = subprocess.run([*run, "--seconds", "3"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert found["notes"] == ["links of 1 hosts are left as they are there"]
    assert "testbed: links of 1 hosts are left as they are there" in done.stderr
    rows = {row["host"]: row for row in found["hosts"]}
    assert rows["node1"]["states"] == {"current": 1}
    assert rows["node2"]["states"] == {"current": 2}
    assert all(row["applied"] > 0 and not row["lost"] for row in rows.values())
    assert all(map(is_clean, hosts.values()))


def test_nothing_stays_there_after_kill_9(hosts: Mapping[str, Host], run: list[str]) -> None:
    with subprocess.Popen([*run, "--seconds", "600"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as bed:
        eventually(
            lambda: bed.poll() is not None or "generator" in hosts["node2"].ssh("pgrep -af emulation || true"), 60
        )
        os.kill(bed.pid, signal.SIGKILL)
    assert bed.returncode == -signal.SIGKILL
    eventually(lambda: all(map(is_clean, hosts.values())), 60)
