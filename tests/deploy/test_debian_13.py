"""The playbooks on a host of Debian 13: its Python, its systemd and its Redis are newer than those of Debian 12."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.deployed_site import DEPLOY, VARIABLES, Site, build_wheels, changed, said
from tests.support.hosts import tree
from tests.support.hosts.demanded import hosts_for_a_test

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "redis-server")]

NAME = "pulse-1"  #: as the example has it


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One host on which ``site.yml`` has run once."""
    directory = tmp_path_factory.mktemp("newer")
    (directory / "inventory").mkdir()
    build_wheels(directory / "inventory" / "wheels", tree.NEXT_PYTHON)
    with hosts_for_a_test(directory / "hosts", [NAME], packages=["redis-server"], suite=tree.NEXT_SUITE) as hosts:
        made = Site(hosts, directory / "inventory")
        done = made.play("site.yml", inventory=inventory(made))
        assert done.returncode == 0, said(done, hosts)
        yield made


def inventory(site: Site) -> dict[str, Any]:
    """The example for one machine."""
    example: dict[str, Any] = yaml.safe_load((DEPLOY / "inventories" / "one" / "hosts.yml").read_text())
    example["all"]["vars"] |= site.inventory()["all"]["vars"] | VARIABLES | {"redis_shard_replicas": 0}
    example["all"]["hosts"][NAME]["ansible_host"] = site.hosts[NAME].address
    return example


def test_its_samples_arrive_and_a_second_run_changes_nothing(site: Site) -> None:
    assert "trixie" in site.hosts[NAME].ssh("cat /etc/os-release")
    answer = json.loads(site.shows("reader", "query", "--set", "host", "--latest", "--json").stdout)
    assert next((row["host"], row["state"]) for row in answer["rows"]) == (NAME, "current")
    done = site.play("site.yml", inventory=inventory(site))
    assert done.returncode == 0, said(done, site.hosts)
    assert changed(done) == {"localhost": 0, NAME: 0}


def test_what_is_removed_leaves_nothing(site: Site) -> None:
    done = site.play("remove.yml", "-e", "confirmed=yes", inventory=inventory(site))
    assert done.returncode == 0, said(done, site.hosts)
    assert site.hosts[NAME].ssh("find / -xdev -name '*shardpulse*' -not -path '/proc/*' -not -path '/sys/*'") == ""
