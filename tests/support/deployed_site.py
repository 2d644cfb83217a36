"""Three hosts with systemd on which the playbooks run, as an operator would run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import ROOT
from tests.support.hosts import Host, tree
from tests.support.hosts.demanded import hosts_for_a_test

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
NAMES = ["node1", "node2", "node3"]
#: Hosts of tests share this machine's kernel, clock and memory.
VARIABLES = {
    "redis_shard_replicas": 1, "redis_shard_maxmemory": 64 << 20, "redis_shard_connections": 500,
    "ansible_user": "admin",
    "common_sysctl": {"net.core.somaxconn": 4096}, "common_huge_pages": "", "common_time_packages": [],
    "controller_command": str(BIN / "shardpulse"),
}  # fmt: skip


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


@contextmanager
def three_hosts(directory: Path, spare: Sequence[str] = ()) -> Iterator[Site]:
    """Three hosts on which ``site.yml`` has run once, and ``spare`` ones that are bare; ``directory`` is empty."""
    (directory / "inventory").mkdir()
    build_wheels(directory / "inventory" / "wheels")
    with hosts_for_a_test(directory / "hosts", [*NAMES, *spare], packages=["redis-server"]) as hosts:
        made_of = Site(hosts, directory / "inventory")
        done = made_of.play("site.yml")
        assert done.returncode == 0, said(done, hosts)
        yield made_of


def build_wheels(wheels: Path, python: str = tree.PYTHON) -> None:
    """A wheelhouse of this checkout as it lies, for all parts and the hosts' Python."""
    build = [
        str(DEPLOY / "build"),
        "wheelhouse",
        "--python",
        python,
        "--extra",
        "probe,filter,serve,archive",
        "--as-they-lie",
    ]
    made = subprocess.run([*build, "--out", str(wheels)], capture_output=True, text=True, timeout=600)
    assert made.returncode == 0, made.stderr


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
