"""The playbooks on real hosts: three machines become a verified pipeline, and a second run changes nothing."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support import ROOT
from tests.support.hosts import Host
from tests.support.hosts.demanded import hosts_for_a_test

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "redis-server")]

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
NAMES = ["node1", "node2", "node3"]
MOST_CALLS = 20  #: to a host in a second run
#: Hosts of tests share this machine's kernel, clock and memory.
VARIABLES = {
    "redis_shard_replicas": 1, "redis_shard_maxmemory": 64 << 20, "redis_shard_connections": 500,
    "ansible_user": "admin",
    "common_sysctl": {"net.core.somaxconn": 4096}, "common_huge_pages": "", "common_time_packages": [],
    "controller_command": str(BIN / "shardpulse"),
}  # fmt: skip
#: A call is what ssh is asked to run: Ansible says so with -vvv, with pipelining once for each module.
_CALL = re.compile(r"^<([\d.]+)> SSH: EXEC ", re.MULTILINE)


class Site(NamedTuple):
    """The hosts, and where the inventory lies."""

    hosts: Mapping[str, Host]
    directory: Path

    def inventory(self, **changes: Any) -> dict[str, Any]:
        """Three machines with everything; ``changes`` are variables of all."""
        everyone: dict[str, Any] = {"hosts": {name: {} for name in NAMES}}
        ssh = {"ansible_ssh_common_args": f"-F {self.directory.parent / 'hosts' / 'ssh_config'}"}
        wheels = {"controller_wheelhouse": str(self.directory / "wheels"), "controller_packed": str(self.directory)}
        addresses = {name: {"ansible_host": host.address} for name, host in self.hosts.items()}
        return {
            "all": {"vars": VARIABLES | ssh | wheels | changes, "hosts": addresses},
            "shards": everyone, "filters": everyone, "probes": everyone,
            "servers": {"hosts": {"node1": {}}}, "archives": {"hosts": {"node2": {}}},
        }  # fmt: skip

    def play(self, book: str, *options: str, inventory: Any = None) -> subprocess.CompletedProcess[str]:
        """Run a playbook."""
        file = self.directory / "hosts.json"
        file.write_text(json.dumps(inventory or self.inventory()))
        command = [str(BIN / "ansible-playbook"), "-i", str(file), book, *options]
        environment = os.environ | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "ANSIBLE_NOCOLOR": "1",
        }
        return subprocess.run(
            command, cwd=DEPLOY, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=900
        )

    def shows(self, user: str, *words: str) -> subprocess.CompletedProcess[str]:
        """What the controller's command prints."""
        config = str(self.directory / "secrets" / f"{user}.toml")
        return subprocess.run(
            [str(BIN / "shardpulse"), *words, "--config", config], capture_output=True, text=True, timeout=120
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three hosts on which ``site.yml`` has run once."""
    directory = tmp_path_factory.mktemp("site")
    (directory / "inventory").mkdir()
    build = [str(DEPLOY / "build"), "wheelhouse", "--extra", "probe,filter,serve,archive", "--as-they-lie"]
    wheels = directory / "inventory" / "wheels"
    made = subprocess.run([*build, "--out", str(wheels)], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr
    with hosts_for_a_test(directory / "hosts", NAMES, packages=["redis-server"]) as hosts:
        made_of = Site(hosts, directory / "inventory")
        done = made_of.play("site.yml")
        assert done.returncode == 0, said(done, hosts)
        yield made_of


def said(done: subprocess.CompletedProcess[str], hosts: Mapping[str, Host]) -> str:
    """What a playbook said in the end, and the journals of all parts."""
    journals = [
        f"{host}\n{host.try_ssh('journalctl -u shardpulse* -n 30 --no-pager').stdout}" for host in hosts.values()
    ]
    return "\n".join([done.stdout[-6000:], done.stderr[-2000:], *journals])


def changed(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """How much each host was changed, by the play recap."""
    return {
        host: int(count) for host, count in re.findall(r"^(\S+) +: ok=\d+ +changed=(\d+)", done.stdout, re.MULTILINE)
    }


def test_real_samples_of_all_hosts_arrive_smoothed_over_tls(site: Site) -> None:
    answer = json.loads(site.shows("reader", "query", "--set", "host", "--latest", "--json").stdout)
    rows = [row for row in answer["rows"] if row["state"] == "current"]
    assert {row["host"] for row in rows} == set(NAMES)
    status = json.loads(site.shows("observer", "status", "--json").stdout)
    assert status["books"]["made"] > 0
    for host in site.hosts.values():
        listening = host.ssh("ss -ltnH")
        assert ":6379" not in listening
        assert host.ssh("systemctl is-enabled redis-server || true").strip() == "masked"


def test_a_second_run_changes_nothing_in_few_calls(site: Site) -> None:
    done = site.play("site.yml", "-vvv")
    assert done.returncode == 0, said(done, site.hosts)
    assert changed(done) == dict.fromkeys(["localhost", *NAMES], 0)
    for host in site.hosts.values():
        calls = sum(address == host.address for address in _CALL.findall(done.stdout))
        assert 0 < calls <= MOST_CALLS, f"{host}: {calls} calls"
    for name in ("operator", "probe", "replication", "token"):
        assert (site.directory / "secrets" / "passwords" / name).read_text().strip() not in done.stdout


def test_a_dry_run_reports_nothing(site: Site) -> None:
    done = site.play("site.yml", "--check", "--diff")
    assert done.returncode == 0, said(done, site.hosts)
    assert changed(done) == dict.fromkeys(["localhost", *NAMES], 0)


def test_a_part_that_is_dead_is_found_and_started_again(site: Site) -> None:
    site.hosts["node3"].ssh("systemctl stop shardpulse-probe")
    done = site.play("verify.yml")
    assert done.returncode != 0
    assert "node3: shardpulse-probe.service is inactive" in " ".join(done.stdout.split()), done.stdout
    done = site.play("site.yml", "--limit", "node3")
    assert done.returncode != 0
    assert "--limit node3,localhost" in " ".join(done.stdout.split()), done.stdout
    done = site.play("site.yml", "--limit", "node3,localhost")
    assert done.returncode == 0, said(done, site.hosts)
    assert changed(done) == {"localhost": 0, "node3": 1}


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"redis_shard_cores": [4000]}, "core 4000 does not exist"),
        ({"redis_shard_port": 20000, "serve_port": 22}, "port 22 is taken by ssh"),
        ({"redis_shard_maxmemory": 1 << 50}, "lower redis_shard_maxmemory"),
        ({"ansible_host": "198.18.0.9"}, "have one address"),
        ({"redis_shard_replicas": 3}, "no other failure domain"),
        ({"controller_certificate_days": 1000}, "ends in 396 days"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_touched(site: Site, variables: dict[str, Any], word: str) -> None:
    inventory = site.inventory(**variables)
    if "ansible_host" in variables:
        for name in NAMES:
            inventory["all"]["hosts"][name].pop("ansible_host")
    done = site.play("site.yml", inventory=inventory)
    assert done.returncode != 0
    assert word in " ".join(done.stdout.split()), done.stdout
    assert sum(changed(done)[name] for name in changed(done) if name != "localhost") == 0


def test_a_host_whose_disk_is_full_is_told_before_anything_is_touched(site: Site) -> None:
    site.hosts["node3"].ssh("mount -t tmpfs -o size=1m none /opt")
    try:
        done = site.play("site.yml")
    finally:
        site.hosts["node3"].ssh("umount /opt")
    assert done.returncode != 0
    assert "node3: the disk of /opt has 1 MiB free" in " ".join(done.stdout.split()), done.stdout
    assert sum(changed(done).values()) == 0


def test_passwords_are_exchanged_while_samples_flow(site: Site) -> None:
    before = (site.directory / "secrets" / "passwords" / "probe").read_text()
    done = site.play("rotate.yml", "-e", '{"controller_rotated": ["probe", "filter"]}')
    assert done.returncode == 0, said(done, site.hosts)
    after = (site.directory / "secrets" / "passwords" / "probe").read_text()
    assert after != before
    for host in site.hosts.values():
        assert host.ssh("cat /etc/shardpulse/probe.password") == after
    status = json.loads(site.shows("observer", "status", "--json").stdout)
    assert status["books"]["lost"] == 0


def test_what_is_removed_leaves_nothing(site: Site) -> None:
    done = site.play("remove.yml")
    assert done.returncode != 0
    assert "confirmed=yes" in done.stdout
    done = site.play("remove.yml", "-e", "confirmed=yes")
    assert done.returncode == 0, said(done, site.hosts)
    for host in site.hosts.values():
        assert host.ssh("find / -xdev -name '*shardpulse*' -not -path '/proc/*' -not -path '/sys/*'") == ""
        assert host.ssh("getent passwd shardpulse || true") == ""
        assert host.ssh("nft list tables") == ""
        assert "redis" not in host.ssh("ps -eo comm")
        assert host.ssh("dpkg-query -W -f '${Status}' redis-server") == "install ok installed"
    assert changed(site.play("remove.yml", "-e", "confirmed=yes")) == dict.fromkeys(NAMES, 0)
