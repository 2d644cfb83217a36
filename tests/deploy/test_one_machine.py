"""The playbooks on one real host that has everything: PostgreSQL by the role archive, and a Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.support.deployed_site import DEPLOY, VARIABLES, Site, build_wheels, changed, said
from tests.support.hosts import Host
from tests.support.hosts.demanded import hosts_for_a_test
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "redis-server")]

NAME = "pulse-1"  #: as the example has it
PACKAGES = ["redis-server", "prometheus", "postgresql"]
_ASK = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=10).read().decode())"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One host on which ``site.yml`` has run once."""
    directory = tmp_path_factory.mktemp("one")
    (directory / "inventory").mkdir()
    build_wheels(directory / "inventory" / "wheels")
    with hosts_for_a_test(directory / "hosts", [NAME], packages=PACKAGES) as hosts:
        made = Site(hosts, directory / "inventory")
        done = made.play("site.yml", inventory=inventory(made))
        assert done.returncode == 0, said(done, hosts)
        yield made


def inventory(site: Site) -> dict[str, Any]:
    """The example for one machine, with a Prometheus and a PostgreSQL of the role's."""
    example: dict[str, Any] = yaml.safe_load((DEPLOY / "inventories" / "one" / "hosts.yml").read_text())
    theirs = site.inventory()["all"]["vars"]
    ours = {name: value for name, value in VARIABLES.items() if name != "redis_shard_replicas"}
    example["all"]["vars"] |= theirs | ours | {"redis_shard_replicas": 0, "archive_postgresql": True}
    example["all"]["hosts"][NAME]["ansible_host"] = site.hosts[NAME].address
    return example | {"observers": {"hosts": {NAME: {}}}}


def ask(host: Host, path: str) -> Any:
    """What its Prometheus answers."""
    done = host.try_ssh(f"python3 -c '{_ASK}' 'http://127.0.0.1:9090/api/v1/{path}'")
    return json.loads(done.stdout)["data"] if done.returncode == 0 else {}


def sql(host: Host, statement: str) -> str:
    """What its database answers a superuser."""
    return host.ssh("runuser -u postgres -- psql -XtAq shardpulse", given=statement).strip()


def test_a_second_run_changes_nothing(site: Site) -> None:
    done = site.play("site.yml", inventory=inventory(site))
    assert done.returncode == 0, said(done, site.hosts)
    assert changed(done) == {"localhost": 0, NAME: 0}


def test_prometheus_has_the_targets_and_the_rules(site: Site) -> None:
    host = site.hosts[NAME]
    assert "SUCCESS" in host.ssh("promtool check config /etc/prometheus/prometheus.yml 2>&1")
    eventually(lambda: [one["health"] for one in ask(host, "targets").get("activeTargets", ())] == ["up"], 120)
    assert {group["name"] for group in ask(host, "rules")["groups"]} == {
        group["name"] for group in yaml.safe_load((DEPLOY / "prometheus/shardpulse.rules.yml").read_text())["groups"]
    }
    busy = "query?query=shardpulse:host_cpu_busy:ratio"
    eventually(lambda: [one["metric"]["host"] for one in ask(host, busy).get("result", ())] == [NAME], 120)


def test_samples_arrive_in_the_archive(site: Site) -> None:
    host = site.hosts[NAME]
    eventually(
        lambda: int(sql(host, "SELECT count(*) FROM minutes")) > 0, 240, says=lambda: host.journal("shardpulse-archive")
    )
    assert sql(host, "SELECT name FROM hosts") == NAME
    owners = sql(host, "SELECT DISTINCT tableowner FROM pg_tables WHERE tablename IN ('minutes', 'hosts')")
    assert owners == "shardpulse_owner"


def test_users_of_the_database_have_passwords_that_nobody_else_reads(site: Site) -> None:
    host = site.hosts[NAME]
    for user in ("owner", "writer", "reader"):
        password = (site.directory / "secrets" / "database" / user).read_text()
        assert host.ssh(f"stat -c '%a %U' /etc/shardpulse/postgresql/{user}").split() == ["600", "postgres"]
        url = f"postgresql://shardpulse_{user}:{password.strip()}@127.0.0.1/shardpulse"
        assert host.ssh(f"psql -XtAc 'SELECT 1' '{url}'").strip() == "1"
        assert host.try_ssh(f"psql -XtAc 'SELECT 1' '{url.replace(password.strip(), 'wrong')}'").returncode != 0
        assert password.strip() not in host.ssh("journalctl --no-pager; cat /proc/[0-9]*/cmdline | tr '\\0' ' '")


def test_a_database_that_is_there_is_written_to(site: Site) -> None:
    """As one of somebody else's: by its address and the password of its user."""
    host = site.hosts[NAME]
    password = (site.directory / "secrets" / "database" / "writer").read_text().strip()
    theirs = inventory(site)
    url = "postgresql://shardpulse_writer@127.0.0.1/shardpulse"
    theirs["all"]["vars"] |= {"archive_postgresql": False, "archive_url": url, "archive_password": password}
    done = site.play("site.yml", "--diff", inventory=theirs)
    assert done.returncode == 0, said(done, site.hosts)
    assert password not in done.stdout
    assert host.ssh("stat -c '%a %U' /etc/shardpulse/database.password").split() == ["600", "root"]
    known = int(sql(host, "SELECT count(*) FROM minutes"))
    eventually(
        lambda: int(sql(host, "SELECT count(*) FROM minutes")) > known,
        240,
        says=lambda: host.journal("shardpulse-archive"),
    )
