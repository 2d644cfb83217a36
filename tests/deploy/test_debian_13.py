"""The playbooks on a host of Debian 13: its Python, its systemd and its Redis are newer than those of Debian 12, and it
has Valkey. The controller's secrets lie sealed all the time."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from acquisition.shards.servers.redis_binary import NAMES
from tests.support.deployed_site import BIN, DEPLOY, VARIABLES, Site, build_wheels, changed, said
from tests.support.hosts import tree
from tests.support.hosts.demanded import hosts_for_a_test

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "redis-server")]

NAME = "pulse-1"  #: as the example has it


class Sealed(NamedTuple):
    """The host, and the vault; ``memory`` is where secrets are open while a command runs; what its shard runs on."""

    site: Site
    memory: Path
    server: str

    @property
    def vault(self) -> Path:
        """All secrets."""
        return self.site.directory / "secrets.vault"

    def play(self, book: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Run a playbook with the secrets."""
        through = [str(DEPLOY / "sealed"), str(self.vault)]
        chosen = inventory(self.site, self.server)
        return self.site.play(book, *options, inventory=chosen, through=through, **self._environment())

    def shows(self, user: str, words: str) -> str:
        """What a command of the product prints with them."""
        line = f'{BIN / "shardpulse"} {words} --config "$SHARDPULSE_SECRETS/{user}.toml"'
        command = [str(DEPLOY / "sealed"), str(self.vault), "sh", "-c", line]
        environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"} | self._environment()
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120).stdout

    def _environment(self) -> dict[str, str]:
        password = self.site.directory / "password"
        password.write_text("of the vault\n")
        return {"ANSIBLE_VAULT_PASSWORD_FILE": str(password), "XDG_RUNTIME_DIR": str(self.memory)}


@pytest.fixture(scope="module", params=NAMES)
def sealed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sealed]:
    """One host on which ``site.yml`` has run once."""
    directory = tmp_path_factory.mktemp("newer")
    (directory / "inventory").mkdir()
    build_wheels(directory / "inventory" / "wheels", tree.NEXT_PYTHON)
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        hosts_for_a_test(directory / "hosts", [NAME], packages=[request.param], suite=tree.NEXT_SUITE) as hosts,
    ):
        made = Sealed(Site(hosts, directory / "inventory"), Path(memory), request.param)
        done = made.play("site.yml")
        assert done.returncode == 0, said(done, hosts)
        yield made


def inventory(site: Site, server: str) -> dict[str, Any]:
    """The example for one machine."""
    example: dict[str, Any] = yaml.safe_load((DEPLOY / "inventories" / "one" / "hosts.yml").read_text())
    example["all"]["vars"] |= site.inventory()["all"]["vars"] | VARIABLES
    example["all"]["vars"] |= {"redis_shard_replicas": 0, "redis_shard_server": server}
    example["all"]["hosts"][NAME]["ansible_host"] = site.hosts[NAME].address
    return example


def test_its_samples_arrive_and_a_second_run_changes_nothing(sealed: Sealed) -> None:
    host = sealed.site.hosts[NAME]
    assert "trixie" in host.ssh("cat /etc/os-release")
    assert host.ssh("pgrep -c -f '[/]usr/bin/" + sealed.server + "'").strip() == "2"  # it has two cores with a shard
    assert host.ssh(f"systemctl is-enabled {sealed.server} || true").strip() == "masked"
    answer = json.loads(sealed.shows("reader", "query --set host --latest --json"))
    assert next((row["host"], row["state"]) for row in answer["rows"]) == (NAME, "current")
    before = sealed.vault.read_bytes()
    done = sealed.play("site.yml")
    assert done.returncode == 0, said(done, sealed.site.hosts)
    assert changed(done) == {"localhost": 0, NAME: 0}
    assert sealed.vault.read_bytes() == before


def test_its_secrets_lie_sealed_between_two_runs(sealed: Sealed) -> None:
    assert sealed.vault.read_text().startswith("$ANSIBLE_VAULT;1.1;AES256\n")
    assert list(sealed.memory.iterdir()) == []
    password = sealed.site.hosts[NAME].ssh("cat /etc/shardpulse/probe.password").strip()
    listed = subprocess.run(
        ["grep", "--recursive", "--files-with-matches", "--fixed-strings", "--file=-", sealed.site.directory],
        input=password, capture_output=True, text=True,
    )  # fmt: skip
    assert (listed.returncode, listed.stdout) == (1, "")
    assert list(sealed.site.directory.glob("**/ca.key")) == []


def test_what_is_removed_leaves_nothing(sealed: Sealed) -> None:
    done = sealed.play("remove.yml", "-e", "confirmed=yes")
    assert done.returncode == 0, said(done, sealed.site.hosts)
    found = sealed.site.hosts[NAME].ssh("find / -xdev -name '*shardpulse*' -not -path '/proc/*' -not -path '/sys/*'")
    assert found == ""
