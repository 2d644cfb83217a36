"""What the controller finds wrong before it asks any host: real playbooks, real certificates, no hosts."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from acquisition.certificates import files, making
from tests.support.deployed_site import BIN, Site, changed, expired_pair

pytest.importorskip("ansible", reason="ansible-core is of the extra test")

ONE: dict[str, Any] = {"a": {"ansible_host": "10.0.0.1"}}
TWO = ONE | {"b": {"ansible_host": "10.0.0.2"}}


def play(directory: Path, hosts: dict[str, Any], book: str = "prepare.yml", shards: bool = True, **more: Any) -> str:
    """What a playbook says that ends before it has changed anything."""
    variables = {"controller_command": str(BIN / "shardpulse"), "controller_secrets": str(directory / "secrets")}
    named: dict[str, Any] = {name: {} for name in hosts}
    inventory = {"all": {"vars": variables | more, "hosts": hosts}, "filters": {"hosts": named}}
    done = Site({}, directory).play(book, inventory=inventory | ({"shards": {"hosts": named}} if shards else {}))
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
        (ONE, {"controller_command": "/no/shardpulse"}, "/no/shardpulse does not run on this machine"),
    ],
)
def test_a_wrong_inventory_is_told(tmp_path: Path, hosts: dict[str, Any], more: dict[str, Any], words: str) -> None:
    assert words in play(tmp_path, hosts, **more)
    assert not (tmp_path / "secrets").exists()


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
    assert re.search(r"; ends in [45] days: renew.yml makes others while everything runs, and with -e expired", said)
    said = play(tmp_path, TWO, "renew.yml")
    assert "; expired" in said
    assert "10.0.0.2" not in said
    for file in services.iterdir():
        file.unlink()
    files.write(making.authority(making.SERVICES, now - timedelta(days=30), 20), services, files.AUTHORITY)
    said = play(tmp_path, TWO, "renew.yml", expired="yes")
    assert f"{services}/ca.pem: CN=shardpulse services authority" in said
    assert "10.0.0.1.pem" not in said
