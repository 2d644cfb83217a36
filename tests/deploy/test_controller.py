"""What the controller asks of shards that run before a host is written to: real shards, Ansible, no hosts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from acquisition.certificates import files, making
from acquisition.shards.servers import grants
from tests.support import ROOT
from tests.support.exchanged import certify, tell
from tests.support.tls_cluster import LACK, NAME, Secured, tls_cluster

if LACK:
    pytest.skip(LACK, allow_module_level=True)

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent
#: As prepare.yml does it, but for the look at the hosts: what they say of their units is in the inventory here.
PLAYS = """\
- name: Prepare
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: Read the inventory
      ansible.builtin.include_role: {name: controller, tasks_from: preflight.yml}

- name: Ask
  hosts: localhost
  connection: local
  gather_facts: false
  tasks:
    - name: The shards that run believe this controller
      ansible.builtin.include_role: {name: controller, tasks_from: known.yml}
"""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with tls_cluster(tmp_path_factory.mktemp("controller") / "cluster") as made:
        yield made


def secrets(secured: Secured, directory: Path) -> Path:
    """A controller's directory for these shards, as far as it is asked for."""
    (directory / "passwords").mkdir(parents=True)
    for user in (grants.OPERATOR, grants.OBSERVER, grants.READER):
        (directory / f"{user}.toml").write_text(secured.configure(user, ""))
    return directory


def ask(secured: Secured, directory: Path, *options: str, state: str = "active") -> str:
    """What the tasks say; "" when they let the run go on."""
    port = min(address.port for address in secured.addresses)
    host: dict[str, Any] = {"ansible_host": "localhost", "redis_shard_port": port}
    host["common_found"] = {"host": {"units": {f"shardpulse-shard@{port}.service": {"ActiveState": state}}}}
    inventory = {
        "all": {
            "vars": {
                "controller_command": str(BIN / "shardpulse"),
                "controller_secrets": str(directory),
                "controller_own_names": ["common_found"],
            }
        },
        "shards": {"hosts": {"a": host}},
        "filters": {"hosts": {"a": {}}},
    }
    (directory / "hosts.json").write_text(json.dumps(inventory))
    (directory / "plays.yml").write_text(PLAYS)
    environment = os.environ | {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "ANSIBLE_HOME": str(directory / "ansible"),
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_CONFIG": str(DEPLOY / "ansible.cfg"),
    }
    done = subprocess.run(
        [str(BIN / "ansible-playbook"), "-i", str(directory / "hosts.json"), str(directory / "plays.yml"), *options],
        cwd=DEPLOY, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode == 0) == ("fatal: " not in done.stdout), done.stdout + done.stderr
    return " ".join(done.stdout.split()) if done.returncode else ""


def test_shards_that_believe_the_controller_let_the_run_go_on(secured: Secured, tmp_path: Path) -> None:
    assert ask(secured, secrets(secured, tmp_path / "secrets")) == ""


def test_another_authority_is_refused(secured: Secured, tmp_path: Path) -> None:
    directory = secrets(secured, tmp_path / "secrets")
    authority = making.authority(making.SHARDS, datetime.now(UTC).replace(microsecond=0), 30)
    other = files.write(authority, tmp_path / "other", files.AUTHORITY)[0]
    for file in directory.glob("*.toml"):
        file.write_text(file.read_text().replace(str(secured.ca), str(other)))
    said = ask(secured, directory)
    assert "has a certificate from an authority that is not in" in said
    assert f"controller_secrets ({directory}) are not what these shards run with" in said
    assert ask(secured, directory, state="inactive") == ""  # what does not run cannot be cut off


def test_another_password_is_refused(secured: Secured, tmp_path: Path) -> None:
    directory = secrets(secured, tmp_path / "secrets")
    wrong = tmp_path / "password"
    wrong.write_text("somebody-elses\n")
    wrong.chmod(0o600)
    file = directory / f"{grants.OBSERVER}.toml"
    lines = [f'password_file = "{wrong}"' if "password_file" in line else line for line in file.read_text().split("\n")]
    file.write_text("\n".join(lines))
    said = ask(secured, directory)
    assert "WRONGPASS" in said
    assert "are not what these shards run with" in said
    (directory / "passwords" / f"{grants.OBSERVER}.next").touch()  # an exchange that was interrupted
    assert ask(secured, directory) == ""


def test_shards_that_show_an_expired_certificate_take_a_word(secured: Secured, tmp_path: Path) -> None:
    """The last one: nobody can connect to these shards any more."""
    for number, _ in enumerate(secured.addresses):
        certify(secured, number, secured.access.authority, NAME, -25 * 86400.0)
    assert tell(secured).returncode == 0
    directory = secrets(secured, tmp_path / "secrets")
    said = ask(secured, directory)
    assert "a: its running shards show a certificate that has expired" in said
    assert "renew.yml -e expired=yes lets running shards read other certificates" in said
    assert ask(secured, directory, "-e", "expired=yes") == ""
