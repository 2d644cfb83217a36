"""The playbooks on real hosts: three machines become a verified pipeline, and a second run changes nothing.

The scenario that ``tests/run`` keeps is marked ``always``: deploy, samples over TLS, a second run, a reboot.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.deployed_site import NAMES, Site, changed, expired_pair, said, three_hosts
from tests.support.hosts import Host
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hosts, pytest.mark.needs("debootstrap", "ssh", "redis-server")]

MOST_CALLS = 20  #: to a host in a second run
#: A call is what ssh is asked to run: Ansible says so with -vvv, with pipelining once for each module.
_CALL = re.compile(r"^<([\d.]+)> SSH: EXEC ", re.MULTILINE)
_LATE = "/usr/lib/python3/dist-packages/late.pth"  #: what every Python of a host executes when it starts


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Three hosts on which ``site.yml`` has run once."""
    with three_hosts(tmp_path_factory.mktemp("site")) as made:
        yield made


@pytest.mark.always
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


@pytest.mark.always
def test_a_second_run_changes_nothing_in_few_calls(site: Site) -> None:
    done = site.play("site.yml", "-vvv")
    assert done.returncode == 0, said(done, site.hosts)
    assert changed(done) == dict.fromkeys(["localhost", *NAMES], 0)
    for host in site.hosts.values():
        calls = sum(address == host.address for address in _CALL.findall(done.stdout))
        assert 0 < calls <= MOST_CALLS, f"{host}: {calls} calls"
    for name in ("operator", "probe", "replication", "token", "writer_token"):
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
    ],
)
def test_what_is_wrong_is_said_before_anything_is_touched(site: Site, variables: dict[str, Any], word: str) -> None:
    done = site.play("site.yml", inventory=site.inventory(**variables))
    assert done.returncode != 0
    assert word in " ".join(done.stdout.split()), done.stdout
    assert sum(changed(done)[name] for name in changed(done) if name != "localhost") == 0


@pytest.mark.skipif(os.cpu_count() == 1, reason="one core: it has the shard, and the interrupts")
def test_interrupts_stay_away_from_shards_where_asked(site: Site) -> None:
    host, unit = site.hosts["node1"], "shardpulse-interrupts.service"
    assert host.ssh("systemctl show -P NUMAPolicy shardpulse-shard@7600").strip() == "local"
    for asked in (True, False):
        done = site.play("site.yml", "--limit", "node1,localhost", inventory=site.inventory(redis_shard_quiet=asked))
        assert done.returncode == 0, said(done, site.hosts)
        assert host.ssh(f"systemctl show -P ActiveState {unit}").strip() == ("active" if asked else "inactive")
    assert " interrupts go to CPUs 1" in host.journal(unit)
    assert " interrupts go to CPUs 0-" in host.journal(unit)


def test_hosts_without_python_or_sudo_are_named(site: Site) -> None:
    moved = {"node1": "/usr/bin/python3", "node3": "/usr/bin/sudo"}
    for name, path in moved.items():
        site.hosts[name].ssh(f"mv {path} /root/away")
    try:
        done = site.play("site.yml")
    finally:
        for name, path in moved.items():
            site.hosts[name].ssh(f"mv /root/away {path}")
    assert done.returncode != 0
    words = " ".join(done.stdout.split())
    assert "node1: it has no /usr/bin/python3: apt-get install python3" in words, done.stdout
    assert "node3: it has no sudo, and its user is not root: apt-get install sudo" in words
    assert sum(changed(done).values()) == 0


def test_a_missing_and_a_wrong_password_of_sudo_are_told(site: Site, tmp_path: Path) -> None:
    asking, password = [site.hosts["node1"], site.hosts["node2"]], tmp_path / "password"
    password.write_text("right\n")
    inventory = site.inventory()
    inventory["all"]["hosts"]["node1"]["ansible_become_password"] = "wrong"
    for host in asking:
        host.ssh("cp -p /etc/sudoers.d/admin /root/away && sed -i s/NOPASSWD:// /etc/sudoers.d/admin")
        host.ssh("chpasswd", given="admin:right")
    try:
        done = site.play("site.yml", inventory=inventory)
        right = site.play("site.yml", "--limit", "node2,localhost", "--become-password-file", str(password))
    finally:
        for host in asking:
            host.ssh("mv /root/away /etc/sudoers.d/admin && passwd --delete admin")
    assert done.returncode != 0
    words = " ".join(done.stdout.split())
    for name, problem in (("node1", "Incorrect"), ("node2", "Missing")):
        assert f"{name}: its user cannot look at it as root: {problem} sudo password. Let sudo take no" in words, words
    assert sum(changed(done).values()) == 0
    assert right.returncode == 0, said(right, site.hosts)


def test_wrong_clock_and_full_disk_are_reported_before_changes(site: Site) -> None:
    """Hosts have the machine's clock: Python's there is let be behind it."""
    late, full = site.hosts["node2"], site.hosts["node3"]
    late.write(_LATE, "import time; time.time = (lambda real: lambda: real() - 90)(time.time)\n")
    full.ssh("mount -t tmpfs -o size=1m none /opt")
    try:
        done = site.play("site.yml")
    finally:
        late.ssh(f"rm {_LATE}")
        full.ssh("umount /opt")
    assert done.returncode != 0
    words = " ".join(done.stdout.split())
    assert re.search(r"node2: its clock is (89|90|91) s behind this machine's: synchronise it \(chrony\)", words), words
    assert "node3: the disk of /opt has 1 MiB free" in words
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


def test_killed_units_are_started_again_on_their_cores(site: Site) -> None:
    host = site.hosts["node2"]
    known = _books(site)["before"]
    before = _running(host)
    assert len(before) == 5, before  # two shards, filter, probe, archive
    pins = _pins(host)
    assert all(core.isdecimal() for core in pins.values()), pins
    host.ssh(f"systemctl kill -s KILL {' '.join(before)}")
    _eventually_well(site)
    after = _running(host)
    assert after.keys() == before.keys()
    assert not set(after.values()) & set(before.values())
    assert _pins(host) == pins
    assert _books(site)["before"] == known, "records of other hosts began anew"
    assert [row["kind"] for row in _crowded(site)] == ["note"], "one machine has two of three masters now"


#: Started before systemd has seen the death, it would be taken for one that runs.
_KILLED = "systemctl kill -s KILL {0}; while systemctl is-active --quiet {0}; do :; done; systemctl start {0}"


@pytest.mark.parametrize("how", [_KILLED, "systemctl restart {0}"], ids=["killed", "restarted"])
def test_a_master_that_is_started_at_once_lets_its_replica_take_over(site: Site, how: str) -> None:
    """Faster than the node timeout it would come back empty, and empty its replica."""
    known, shards = _books(site)["before"], _shards(site)
    following = {row["replica_of"]: row["address"] for row in shards.values() if row["in_sync"]}
    master = min(following)
    address, _, port = master.partition(":")
    (host,) = [host for host in site.hosts.values() if host.address == address]
    host.ssh(how.format(f"shardpulse-shard@{port}"))
    assert "which shall take over first" in host.journal(f"shardpulse-shard@{port}")
    _eventually_well(site)
    shards = _shards(site)
    assert (shards[master]["replica_of"], shards[master]["in_sync"]) == (following[master], True)
    assert _books(site)["before"] == known, "records of hosts began anew"


@pytest.mark.always
def test_a_host_that_reboots_loses_nothing_but_its_own_down_time(site: Site) -> None:
    """``site.yml`` gives masters back first: with two of three on the host nobody could take over from them."""
    if _crowded(site):
        done = site.play("site.yml")
        assert done.returncode == 0, said(done, site.hosts)
    assert not _crowded(site)
    host = site.hosts["node3"]
    known, units, pins = _books(site)["before"], _running(host).keys(), _pins(host)
    host.reboot()
    _eventually_well(site)
    assert _running(host).keys() == units
    assert _pins(host) == pins
    assert _books(site)["before"] == known, "records of other hosts began anew"


@pytest.mark.parametrize("wrong", ["all", "observer"])
def test_foreign_secrets_are_refused_before_any_write(site: Site, wrong: str) -> None:
    other = site.directory / f"other-{wrong}"
    shutil.copytree(site.directory / "secrets", other)
    if wrong == "all":  # an empty directory: another authority, other passwords
        shutil.rmtree(other)
    else:
        (other / "passwords" / wrong).write_text("somebody-elses\n")
    done = site.play("site.yml", inventory=site.inventory(controller_secrets=str(other)))
    assert done.returncode != 0
    words = " ".join(done.stdout.split())
    assert f"controller_secrets ({other}) are not what these shards run with" in words, done.stdout
    assert ("has a certificate from an authority that is not in" if wrong == "all" else "WRONGPASS") in words
    assert sum(changed(done)[name] for name in changed(done) if name != "localhost") == 0
    authority = (site.directory / "secrets" / "shards" / "ca.pem").read_text()
    for host in site.hosts.values():
        assert host.ssh("cat /etc/shardpulse/ca.pem") == authority


def test_certificates_are_renewed_while_samples_flow(site: Site) -> None:
    shards = [(host.address, port) for host in site.hosts.values() for port in (7600, 7700)]
    before = {shard: ssl.get_server_certificate(shard) for shard in shards}
    served = ssl.get_server_certificate((site.hosts["node1"].address, 7680))
    done = site.play("renew.yml", "-e", "controller_renew_days=400")
    assert done.returncode == 0, said(done, site.hosts)
    issued = site.directory / "secrets" / "shards" / "issued"
    for address, port in shards:
        assert ssl.get_server_certificate((address, port)) != before[address, port]
        assert ssl.get_server_certificate((address, port)) == (issued / f"{address}.pem").read_text()
    assert ssl.get_server_certificate((site.hosts["node1"].address, 7680)) != served
    eventually(lambda: site.shows("observer", "status").returncode == 0, 120)
    status = json.loads(site.shows("observer", "status", "--json").stdout)
    assert status["books"]["lost"] == 0


def test_certificates_that_have_expired_are_exchanged_without_a_start(site: Site) -> None:
    shards = [(host, port) for host in site.hosts.values() for port in (7600, 7700)]
    known, before = _books(site)["before"], {host.name: _running(host) for host in site.hosts.values()}
    for host in site.hosts.values():
        pair = expired_pair(site.directory / "secrets" / "shards", host.address)
        for place in ("shard-7600", "shard-7700"):
            for name, text in pair.items():
                host.write(f"/etc/shardpulse/{place}/shard.{name}", text, "640", "root:redis")
    expired_pair(site.directory / "secrets" / "services", site.hosts["node1"].address)
    first = f"{site.hosts['node1'].address}:7600"
    assert site.shows("operator", "shards", "certificates", "--addresses", first).returncode == 0
    assert "has a certificate that has expired" in site.shows("observer", "status").stderr
    for book in ("site.yml", "renew.yml"):
        done = site.play(book)
        assert done.returncode != 0
        words = " ".join(done.stdout.split())
        assert re.search(rf"node3: \S+/{site.hosts['node3'].address}.pem: [^;]+; expired", words), words
        assert "-e expired=yes" in words
        assert sum(changed(done).values()) == 0
    done = site.play("renew.yml", "-e", "expired=yes")
    assert done.returncode == 0, said(done, site.hosts)
    for host, port in shards:
        issued = site.directory / "secrets" / "shards" / "issued" / f"{host.address}.pem"
        assert ssl.get_server_certificate((host.address, port)) == issued.read_text()
    _eventually_well(site)
    assert _books(site)["before"] == known, "records of hosts began anew"
    for host in site.hosts.values():
        after = _running(host)
        assert {unit for unit in after if after[unit] != before[host.name][unit]} <= {"shardpulse-serve.service"}
    assert not (site.directory / "secrets" / "shards" / "before").exists()
    done = site.play("renew.yml", "-e", "expired=yes")
    assert done.returncode == 0, said(done, site.hosts)
    assert changed(done) == dict.fromkeys(["localhost", *NAMES], 0)


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


def _running(host: Host) -> dict[str, str]:
    """Units of shardpulse that run, with their process."""
    listed = host.ssh("systemctl list-units --plain --no-legend --state=running 'shardpulse-*.service' | cut -d' ' -f1")
    return {unit: host.ssh(f"systemctl show -P MainPID {unit}").strip() for unit in listed.split()}


def _pins(host: Host) -> dict[str, str]:
    """Of each shard, the cores that its process may run on."""
    asked = {unit: f"grep Cpus_allowed_list /proc/{pid}/status" for unit, pid in _running(host).items() if "@" in unit}
    return {unit: host.ssh(command).split()[1] for unit, command in asked.items()}


def _eventually_well(site: Site) -> None:
    """All parts work, all hosts are seen, the books balance and no sample is lost."""

    def well() -> bool:
        rows = json.loads(
            site.shows("reader", "query", "--set", "host", "--latest", "--json").stdout or '{"rows": []}'
        )["rows"]
        seen = {row["host"] for row in rows if row["state"] == "current"}
        return seen == set(NAMES) and site.shows("observer", "status").returncode == 0

    eventually(well, 120, says=lambda: site.shows("observer", "status").stdout)
    assert _books(site)["lost"] == 0


def _crowded(site: Site) -> list[dict[str, str]]:
    """What is said of machines with so many masters that the others are no majority."""
    found = json.loads(site.shows("observer", "status", "--json").stdout)["findings"]
    return [row for row in found if row["about"].startswith("machine ")]


def _shards(site: Site) -> dict[str, dict[str, Any]]:
    """What is said of each shard, by its address."""
    return {row["address"]: row for row in json.loads(site.shows("observer", "status", "--json").stdout)["shards"]}


def _books(site: Site) -> dict[str, int]:
    found: dict[str, int] = json.loads(site.shows("observer", "status", "--json").stdout)["books"]
    return found
