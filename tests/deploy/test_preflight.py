"""What the controller finds wrong before it asks any host: real playbooks, real certificates, no hosts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
import yaml
from lookup_plugins import unknown_names

from acquisition.certificates import files, making
from tests.support import ROOT
from tests.support.deployed_site import BIN, DEPLOY, Site, changed, expired_pair

pytest.importorskip("ansible", reason="ansible-core is of the extra test")

ONE: dict[str, Any] = {"a": {"ansible_host": "10.0.0.1"}}
TWO = ONE | {"b": {"ansible_host": "10.0.0.2"}}


def play(
    directory: Path, hosts: dict[str, Any], book: str = "prepare.yml", *options: str, shards: bool = True,
    groups: Mapping[str, Any] = MappingProxyType({}), **more: Any,
) -> str:  # fmt: skip
    """What a playbook says that ends before it has changed anything; ``groups`` are there beside the usual ones."""
    variables = {"controller_command": str(BIN / "shardpulse"), "controller_secrets": str(directory / "secrets")}
    named: dict[str, Any] = {name: {} for name in hosts}
    inventory = {"all": {"vars": variables | more, "hosts": hosts}, "filters": {"hosts": named}, **groups}
    inventory |= {"shards": {"hosts": named}} if shards else {}
    done = Site({}, directory).play(book, *options, inventory=inventory)
    assert done.returncode != 0, done.stdout
    assert sum(changed(done).values()) == 0
    return " ".join(done.stdout.split())


@pytest.mark.parametrize(
    ("hosts", "more", "words"),
    [
        (ONE, {"shards": False}, "there is no shard: put at least one host into the group shards"),
        (ONE | {"b": ONE["a"]}, {}, "a and b have one address, 10.0.0.1: correct ansible_host"),
        (ONE, {"redis_shard_replicas": 1}, "the shard on a (10.0.0.1, core 0) has no other failure domain left for"),
        (TWO, {"redis_shard_cores": [0, 1], "redis_shard_reserved_cores": [1]}, "b: core 1 is reserved"),
        (
            ONE,
            {"filter_configuration": "[filter]\nexpire_second = 3"},
            "filter_configuration (a): key filter.expire_second: unknown key; did you mean expire_seconds?",
        ),
        (TWO, {"filter_configuration": "[shards]\naddresses = []"}, "filter_configuration (a, b): "),
        (ONE, {"controller_command": "/no/shardpulse"}, "/no/shardpulse does not run on this machine"),
    ],
)
def test_a_wrong_inventory_is_told(tmp_path: Path, hosts: dict[str, Any], more: dict[str, Any], words: str) -> None:
    assert words in play(tmp_path, hosts, **more)
    assert not (tmp_path / "secrets").exists()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("redis_shard_maxmemry", "(all) is unknown: did you mean redis_shard_maxmemory?"),
        ("tuning", "(all) is unknown; names of your own are my_*, site_*, vault_*: controller_own_names"),
    ],
)
def test_a_variable_that_no_role_knows_is_refused(tmp_path: Path, wrong: str, words: str) -> None:
    assert f"variable {wrong} {words}" in play(tmp_path, ONE, **{wrong: 1})
    assert not (tmp_path / "secrets").exists()


def test_a_wrong_name_is_refused_wherever_it_stands(tmp_path: Path) -> None:
    for file in ("group_vars/filtres.yml", "group_vars/all/x", "host_vars/aa", "host_vars/a.yml"):
        path = tmp_path / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("---\n")
    (tmp_path / "host_vars" / "a.yml").write_text("probe_configurations: x\nmy_own: 1\nansible_user: root\n")
    groups = {
        "probess": {"hosts": {"a": {}}, "var": {}},
        "probes": {"children": {"watched": {}}},
        "watched": {"hosts": {"b": {}}},
    }
    said = play(tmp_path, TWO, "verify.yml", "-e", "controler_patience=1", groups=groups)
    assert "variable controler_patience (-e) is unknown: did you mean controller_patience?; " in said
    assert "variable probe_configurations (a) is unknown: did you mean probe_configuration?; " in said
    assert "group probess is unknown: did you mean probes?; " in said
    assert f"filtres in {tmp_path}/group_vars is no group of the inventory: did you mean filters?; " in said
    assert f"aa in {tmp_path}/host_vars is no host of the inventory: did you mean a?; " in said
    assert "key var of group probess is unknown: did you mean vars?; " in said
    unknown = set(re.findall(r"(?:variable|group) (\S+)(?: \(\S+\))? is unknown", said))
    assert unknown == {"controler_patience", "probe_configurations", "probess"}


@pytest.mark.parametrize(("book", "needed"), [("remove.yml", "confirmed=yes"), ("drain.yml", "drained=a")])
def test_who_takes_something_away_checks_names_first(tmp_path: Path, book: str, needed: str) -> None:
    groups = {"probess": {"hosts": {"a": {}}}}
    said = play(tmp_path, TWO, book, "-e", needed, "-e", "remove_package=redis-server", groups=groups)
    assert "variable remove_package (-e) is unknown: did you mean remove_packages?; " in said
    assert "group probess is unknown: did you mean probes?; " in said
    assert "UNREACHABLE" not in said


def test_names_that_are_listed_are_the_operators(tmp_path: Path) -> None:
    said = play(tmp_path, ONE, zone="x", groups={"racks": {"hosts": {"a": {}}}}, controller_own_names=["zone", "rack*"],
                controller_command="/no/shardpulse")  # fmt: skip
    assert "/no/shardpulse does not run on this machine" in said


def test_every_variable_of_roles_and_documents_is_declared() -> None:
    known = set()
    for role in (DEPLOY / "roles").iterdir():
        specifications = yaml.safe_load((role / "meta" / "argument_specs.yml").read_text())
        options = set(specifications["argument_specs"]["main"]["options"])
        defaults = role / "defaults" / "main.yml"
        assert options == set(yaml.safe_load(defaults.read_text()) if defaults.exists() else ()), role.name
        known |= unknown_names.declared([specifications])
    for path in (*DEPLOY.glob("*.yml"), *(ROOT / "docs").rglob("*.md")):
        text = path.read_text() if "ansible-playbook" in path.read_text() or path.parent == DEPLOY else ""
        assert set(re.findall(r"-e (?:'\{\")?(\w+)[=\"]", text)) <= known, path


def test_certificates_that_end_or_have_ended_are_told(tmp_path: Path) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    shards, services = tmp_path / "secrets" / "shards", tmp_path / "secrets" / "services"
    for purpose, place in ((making.SHARDS, shards), (making.SERVICES, services)):
        files.write(making.authority(purpose, now - timedelta(days=30), 600), place, files.AUTHORITY)
    expired_pair(shards, "10.0.0.1")
    files.write(making.issue(files.read(shards), ["10.0.0.2"], now, 5), shards / "issued", "10.0.0.2")
    said = play(tmp_path, TWO)
    assert f"a: {shards}/issued/10.0.0.1.pem: 10.0.0.1, from " in said
    assert "UTC; expired; b: " in said
    assert re.search(r"; expires in [45] days: renew.yml makes others while everything runs, and with -e expired", said)
    said = play(tmp_path, TWO, "renew.yml")
    assert "; expired" in said
    assert "10.0.0.2" not in said
    for file in services.iterdir():
        file.unlink()
    files.write(making.authority(making.SERVICES, now - timedelta(days=30), 20), services, files.AUTHORITY)
    said = play(tmp_path, TWO, "renew.yml", expired="yes")
    assert f"{services}/ca.pem: CN=shardpulse services authority" in said
    assert "10.0.0.1.pem" not in said
