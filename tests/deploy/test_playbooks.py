"""Playbooks and roles as Ansible and its linters see them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from acquisition.shards.servers import redis_binary
from tests.support import ROOT

DEPLOY = ROOT / "deploy"
BIN = Path(sys.executable).parent


def run(directory: Path, *command: str) -> None:
    environment = os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}", "ANSIBLE_HOME": str(directory), "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=DEPLOY, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_production_profile_of_ansible_lint_finds_nothing(tmp_path: Path) -> None:
    run(tmp_path, str(BIN / "ansible-lint"), "-q", "--format=pep8", ".")


def test_yamllint_finds_nothing(tmp_path: Path) -> None:
    run(tmp_path, str(BIN / "yamllint"), "--strict", ".")


@pytest.mark.parametrize("inventory", ["one/hosts.yml", "three/hosts.yml", "hundred.py"])
def test_the_examples_are_inventories(tmp_path: Path, inventory: str) -> None:
    run(tmp_path, str(BIN / "ansible-playbook"), "-i", f"inventories/{inventory}", "--syntax-check", "site.yml")


def test_the_names_of_servers_are_those_of_units_and_roles() -> None:
    files = (
        "systemd/shardpulse-shard@.service", "roles/redis_shard/meta/argument_specs.yml", "library/host_facts.py",
        "remove.yml",
    )  # fmt: skip
    for file in files:
        found = re.findall(r"\b[a-z]+-server\b", (DEPLOY / file).read_text())
        assert set(found) == set(redis_binary.NAMES), file
