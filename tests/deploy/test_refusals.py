"""What is refused before a host is changed: each host's own finding in the last lines, and nobody else's."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import zipfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ansible", reason="ansible-core is of the extra test")

from callback_plugins import findings

from tests.support.deployed_site import BIN, NAMES, SITE_PACKAGES, SPARE, Site, build_wheels, changed
from tests.support.hosts.demanded import hosts_for_a_test


def last_lines(done: subprocess.CompletedProcess[str]) -> str:
    """What a playbook that has failed says after the recap."""
    assert done.returncode != 0, done.stdout
    return done.stdout.partition("PLAY RECAP")[2]


@pytest.mark.parametrize("book", ["site.yml", "verify.yml"])
def test_a_host_that_is_down_hides_nothing(tmp_path: Path, book: str) -> None:
    """Two hosts that are this machine, which is none of the roles', and one at a port where nothing listens."""
    with zipfile.ZipFile(tmp_path / "shardpulse-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr("shardpulse-1.dist-info/METADATA", "Name: shardpulse\n")
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    here = {"ansible_connection": "local", "redis_shard_cores": [4000]}
    hosts = {"a": here, "b": {"ansible_host": "127.0.0.1", "ansible_port": port}, "c": here}
    variables = {
        "controller_command": str(BIN / "shardpulse"), "controller_secrets": str(tmp_path / "secrets"),
        "controller_wheelhouse": str(tmp_path), "controller_packed": str(tmp_path), "common_synchronised": False,
    }  # fmt: skip
    everyone = {"hosts": {name: {} for name in hosts}}
    inventory = {"all": {"vars": variables, "hosts": hosts}, "shards": everyone, "filters": everyone}
    done = Site({}, tmp_path).play(book, inventory=inventory)
    said = last_lines(done)
    assert re.findall(r"^(?!localhost)(\w+)(?:: | cannot be reached: )", said, re.MULTILINE) == ["a", "b", "c"], said
    assert sum(changed(done).values()) == 0
    assert not (tmp_path / "secrets").exists()


def test_what_is_said_of_a_failure_is_one_line() -> None:
    assert findings.reason_of({"msg": "Task failed: no\nway."}) == "no way"
    assert findings.reason_of({"msg": "non-zero return code", "rc": 1, "stderr": "a\nlast\n"}).endswith("code: last")
    looped = {"msg": "One or more items failed", "results": [{"msg": "fine"}, {"failed": True, "msg": "this one"}]}
    assert findings.reason_of(looped) == "this one"
    assert findings.reason_of({"censored": "hidden"}) == "failed, see above"


@pytest.mark.hosts
@pytest.mark.needs("debootstrap", "ssh", "redis-server")
def test_bare_hosts_are_refused_each_for_its_own_reasons(tmp_path: Path) -> None:
    (tmp_path / "inventory").mkdir()
    build_wheels(tmp_path / "inventory" / "wheels")
    with hosts_for_a_test(tmp_path / "hosts", [*NAMES, SPARE], packages=SITE_PACKAGES) as hosts:
        site = Site(hosts, tmp_path / "inventory")
        inventory: dict[str, Any] = site.inventory() | {"observers": {"hosts": {SPARE: {}}}}
        inventory["all"]["hosts"]["node2"] |= {"common_synchronised": True, "redis_shard_cores": [4000]}
        hosts["node3"].kill()
        done = site.play("site.yml", inventory=json.loads(json.dumps(inventory)))
        said = last_lines(done)
        assert re.search(r"\nnode2: its clock is not synchronised: .*; core 4000 does not exist", said), said
        assert "\nnode3 cannot be reached: " in said
        assert f"\n{SPARE}: its packages cannot be installed: " in said
        assert f"localhost: nothing was changed, because of node2, node3, {SPARE}: " in said
        assert not re.search(r"^node1: (?!ok=)", said, re.MULTILINE), said
        assert "fatal: [node1]" not in done.stdout
        assert sum(changed(done).values()) == 0
        assert not (site.directory / "secrets").exists()
        assert hosts["node1"].ssh("ls /etc/shardpulse /opt/shardpulse 2>/dev/null || true") == ""
