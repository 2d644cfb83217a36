"""What the roles decide from an inventory and from what was found on hosts, in words: deploy/filter_plugins."""

from __future__ import annotations

import json
from typing import Any

import pytest
from filter_plugins import shardpulse_hosts as roles
from filter_plugins import shardpulse_plan
from hypothesis import given
from hypothesis import strategies as st

pytestmark = pytest.mark.quick

FOUND = {
    "cores": [0, 1], "usable": [0], "ports": {"22": "ssh.service"}, "addresses": ["10.0.0.1"], "memory": 8 << 30,
    "sent": 100.0, "time": 100.5, "synchronised": True, "units": {}, "files": {}, "packages": {}, "python": [3, 11],
}  # fmt: skip
SHARD = {"port": 7600, "core": 0, "role": "master"}


def plan(hosts: dict[str, dict[str, Any]], replicas: Any = 0, filters: bool = True) -> dict[str, Any]:
    groups = {"shards": list(hosts), "filters": list(hosts)[:1] if filters else []}
    return shardpulse_plan.plan(groups, {host: {"ansible_host": f"10.0.0.{number}"} | variables
                               for number, (host, variables) in enumerate(hosts.items(), 1)}, replicas)  # fmt: skip


def test_masters_come_before_replicas_which_lie_elsewhere() -> None:
    found = plan({"a": {}, "b": {}, "c": {}}, replicas=1)
    assert found["problems"] == []
    assert found["masters"] == ["10.0.0.1:7600", "10.0.0.2:7600", "10.0.0.3:7600"]
    assert found["replicas"] == ["10.0.0.2:7700", "10.0.0.3:7700", "10.0.0.1:7700"]
    assert found["instances"]["a"] == [SHARD, {"port": 7700, "core": 0, "role": "replica"}]


@pytest.mark.parametrize(
    ("hosts", "replicas", "word"),
    [
        ({}, 0, "there is no shard"),
        ({"a": {"ansible_host": "10.9.9.9"}, "b": {"ansible_host": "10.9.9.9"}}, 0, "a and b have one address"),
        ({"a": {}}, 1, "the shard on a (10.0.0.1, core 0) has no other failure domain left"),
        ({"a": {"redis_shard_failure_domain": 1}, "b": {"redis_shard_failure_domain": 1}}, 1, "no other failure"),
        ({"a": {}, "b": {}}, 2, "no other failure domain"),
        ({"a": {"redis_shard_cores": []}}, 0, "a: redis_shard_cores must be a list"),
        ({"a": {"redis_shard_cores": "0"}}, 0, "a: redis_shard_cores must be a list"),
        ({"a": {"redis_shard_cores": [0, 0]}}, 0, "names a core twice"),
        ({"a": {"redis_shard_cores": [-1]}}, 0, "a core below 0"),
        ({"a": {"redis_shard_reserved_cores": [0]}}, 0, "a: core 0 is reserved"),
        ({"a": {"redis_shard_reserved_cores": 0}}, 0, "a: redis_shard_reserved_cores must be a list"),
        ({"a": {}}, -1, "redis_shard_replicas is -1"),
        ({"a": {}}, "1", "redis_shard_replicas is '1'"),
    ],
)  # fmt: skip
def test_a_wrong_inventory_is_refused_in_words(hosts: dict[str, dict[str, Any]], replicas: Any, word: str) -> None:
    assert word in "; ".join(plan(hosts, replicas)["problems"])


def test_a_database_of_the_role_is_for_one_archive() -> None:
    groups = {"shards": ["a"], "filters": ["a"], "archives": ["a", "b"]}
    hostvars: dict[str, dict[str, Any]] = {"a": {}, "b": {"archive_postgresql": True}}
    assert shardpulse_plan.plan(groups, {"a": {}, "b": {}})["problems"] == []
    (problem,) = shardpulse_plan.plan(groups, hostvars)["problems"]
    assert problem.startswith("b: archive_postgresql is for one host in the group archives, and there are a, b: ")
    assert shardpulse_plan.plan(groups | {"archives": ["b"]}, hostvars)["problems"] == []


def test_shards_that_run_are_those_whose_units_do() -> None:
    planned = plan({"a": {}, "b": {}, "c": {}}, replicas=1)
    active = {"ActiveState": "active"}
    units = {"shardpulse-shard@7600.service": active, "shardpulse-shard@7700.service": {"ActiveState": "failed"}}
    looked = {"common_found": {"host": {"units": units}}}
    assert shardpulse_plan.running(planned, {"a": looked, "b": {}, "c": {"common_found": {"host": {}}}}) == [
        "10.0.0.1:7600"
    ]


def test_only_what_shards_have_against_the_secrets_is_told() -> None:
    foreign = "shard 10.0.0.1:7600 has a certificate from an authority that is not in ca.pem ([shards] tls_ca): unable"
    wrong = "shard 10.0.0.2:7600: WRONGPASS invalid username-password pair; set [shards] username and password_file"
    away = "shard 10.0.0.3:7600 is unreachable: refused"
    rows = {"shards": [{"problem": foreign}, {"problem": away}, {"problem": ""}]}
    asked = [{"stdout": json.dumps(rows), "stderr": "", "rc": 69}, {"stderr": f"shardpulse: {wrong}", "rc": 77}]
    asked += [{"stderr": f"shardpulse: {away}", "rc": 69}, {"skipped": True}]
    (one, other) = roles.refused(asked)
    assert one == foreign
    assert other.startswith("shard 10.0.0.2:7600: WRONGPASS")


def test_hosts_whose_shards_show_expired_certificates_are_named() -> None:
    planned = plan({"a": {}, "b": {"ansible_host": "10.0.0.22"}, "c": {}})
    over = "has a certificate that has expired: issue a new one"
    rows = {"shards": [{"problem": f"shard 10.0.0.22:7600 {over}"}, {"problem": "shard 10.0.0.3:7600: WRONGPASS"}]}
    asked = [{"stdout": json.dumps(rows), "stderr": ""}, {"skipped": True}]
    assert roles.expired(asked, planned) == ["b: its running shards show a certificate that has expired"]
    assert roles.expired([{"stderr": f"shardpulse: no shard answers: shard 10.0.0.1:7600 {over}; x"}], planned) == [
        "a: its running shards show a certificate that has expired"
    ]


def test_certificates_that_end_are_told_with_their_hosts() -> None:
    lines = [
        "/s/shards/ca.pem: shardpulse, from … until …; expires in 6 days", "/s/shards/issued/10.0.0.1.pem: a; expired",
        "/s/services/issued/10.0.0.1.pem: a; valid",
    ]  # fmt: skip
    shown = {"stdout_lines": lines, "stderr_lines": ["more"]}
    assert roles.ending(shown, plan({"a": {}})) == [lines[0], f"a: {lines[1]}", "more"]


def test_each_kind_of_host_has_an_environment() -> None:
    groups = {"shards": ["a"], "filters": ["a"], "probes": ["a", "b"], "observers": ["c"]}
    found = shardpulse_plan.plan(groups, {host: {} for host in "abc"})
    assert found["environment"] == {"a": "filters-probes", "b": "probes", "c": ""}
    assert found["extras"] == {"filters-probes": ["filter", "probe"], "probes": ["probe"]}


def test_shards_without_a_filter_are_refused() -> None:
    assert plan({"a": {}}, filters=False)["problems"] == [
        "there is no filter: put at least one host into the group filters"
    ]


@given(
    hosts=st.lists(st.tuples(st.lists(st.integers(0, 7), min_size=1, max_size=4, unique=True), st.integers(0, 3)),
                   min_size=1, max_size=8),
    replicas=st.integers(0, 2),
)  # fmt: skip
def test_replica_never_shares_a_domain_with_its_master(hosts: list[tuple[list[int], int]], replicas: int) -> None:
    variables = {
        f"h{number}": {"redis_shard_cores": cores, "redis_shard_failure_domain": domain}
        for number, (cores, domain) in enumerate(hosts)
    }
    found = plan(variables, replicas)
    domains = {f"10.0.0.{number + 1}": domain for number, (_, domain) in enumerate(hosts)}
    if found["problems"]:
        assert replicas >= len(set(domains.values()))
        return
    masters, followers = found["masters"], found["replicas"]
    assert len(followers) == replicas * len(masters)
    assert len(set(masters + followers)) == len(masters + followers)
    for number, master in enumerate(masters):
        family = [master, *followers[number :: len(masters)]]
        assert len({domains[address.partition(":")[0]] for address in family}) == 1 + replicas


BARE = 'os=debian\nversion="12"\npython=3.11\nuid=1000\nsystemd=yes\n'


def test_a_usable_host_is_taken() -> None:
    assert roles.unfit(BARE) == []
    assert roles.unfit(BARE.replace("uid=1000", "uid=0\nsudo=none")) == []


@pytest.mark.parametrize(
    ("line", "other", "word"),
    [
        ("debian", "fedora", "it runs fedora 12; the roles know Debian 12 and Debian 13"),
        ('"12"', "11", "it runs debian 11"),
        ("python=3.11", "python=", "it has no /usr/bin/python3"),
        ("uid=1000", "uid=1000\nsudo=none", "it has no sudo, and its user is not root: apt-get install sudo"),
        ("systemd=yes", "", "was not started by systemd"),
    ],
)
def test_a_host_that_is_not_usable_is_told_why(line: str, other: str, word: str) -> None:
    assert word in "; ".join(roles.unfit(BARE.replace(line, other)))


@given(st.text())
def test_whatever_a_shell_prints_is_no_crash(text: str) -> None:
    assert roles.unfit(text)


@pytest.mark.parametrize(
    ("time", "synchronised", "word"),
    [(100.5, True, ""), (95.0, True, "5 s behind"), (107.0, True, "6 s ahead of"), (100.5, False, "not synchronised")],
)
def test_a_wrong_clock_is_told(time: float, synchronised: bool, word: str) -> None:
    said = "; ".join(roles.clock(FOUND | {"time": time, "synchronised": synchronised}, 101.0, 1.0, True))
    assert word in said
    assert bool(word) == bool(said)


@pytest.mark.parametrize(
    ("change", "shard", "word"),
    [
        ({}, SHARD, ""),
        ({}, SHARD | {"core": 7}, "core 7 does not exist: it has 0, 1"),
        ({}, SHARD | {"core": 1}, "core 1 is kept from services of systemd, which have 0"),
        ({"ports": {"7600": "other.service"}}, SHARD, "port 7600 is taken by other.service"),
        ({"ports": {"17600": "other.service"}}, SHARD, "port 17600 is taken by other.service"),
        ({"ports": {"7600": "shardpulse-shard@7600.service"}}, SHARD, ""),
        ({"addresses": ["10.0.0.9"]}, SHARD, "it has no address 10.0.0.1, only 10.0.0.9"),
        ({"memory": 1 << 20}, SHARD, "its shards may take 1024 MiB and it has 1"),
    ],
)
def test_a_host_that_cannot_hold_its_shards_is_told_why(change: dict[str, Any], shard: Any, word: str) -> None:
    said = "; ".join(roles.unheld(FOUND | change, [shard], "10.0.0.1", 1 << 30))
    assert word in said
    assert bool(word) == bool(said)


def test_interrupts_need_a_core_without_a_shard() -> None:
    assert roles.unheld(FOUND, [SHARD], "10.0.0.1", 1 << 30, quiet=True) == []
    (problem,) = roles.unheld(FOUND | {"cores": [0]}, [SHARD], "10.0.0.1", 1 << 30, quiet=True)
    assert "each of its cores has a shard" in problem


def test_a_full_disk_is_told() -> None:
    found = FOUND | {"free": {"/etc": 33 << 20, "/opt": 40 << 20, "/var/lib": -1}}
    assert roles.full(found, 0) == []
    assert roles.full(found, 10 << 20) == ["the disk of /opt has 40 MiB free, 92 are needed: make room there"]
    assert "of /etc has 0 MiB free, 32 are needed" in roles.full(found | {"free": {"/etc": 0}}, 0)[0]


def test_what_cannot_be_installed_is_told() -> None:
    found = FOUND | {"machine": "x86_64", "unpackaged": ""}
    assert roles.uninstallable(found, {"3.13 x86_64": ["numpy"]}) == []
    (packages, wheels) = roles.uninstallable(found | {"unpackaged": "Unable to locate"}, {"3.11 x86_64": ["a", "b"]})
    assert packages == "its packages cannot be installed: Unable to locate"
    assert wheels.startswith("the wheelhouse has no wheel of a, b for its Python 3.11 on x86_64: make it again")


def test_shards_that_are_no_members_are_told() -> None:
    planned = {"masters": ["a:1", "b:1"], "replicas": ["a:2"]}
    rows = [
        {"address": "a:1", "answering": True, "cluster_state": "ok", "slots": 16384, "role": "master"},
        {"address": "a:2", "answering": True, "cluster_state": "ok", "slots": 0, "role": "replica"},
        {"address": "b:1", "answering": True, "cluster_state": "fail", "slots": 0, "role": "master"},
    ]
    assert roles.strangers({"stdout": json.dumps({"shards": rows})}, planned) == ["b:1"]
    assert roles.strangers({"stdout": ""}, planned) == ["a:1", "b:1", "a:2"]
    assert roles.strangers({"stdout": "no shard answers"}, planned) == ["a:1", "b:1", "a:2"]


def test_what_is_not_well_is_told() -> None:
    unit = {
        "ActiveState": "active",
        "SubState": "running",
        "UnitFileState": "enabled",
        "Result": "success",
        "cpus": ["0-1"],
    }
    found = FOUND | {
        "units": {"a.service": unit, "b.service": unit | {"ActiveState": "failed"},
                  "c.service": unit | {"UnitFileState": "disabled"}},
        "files": {"/key": {"mode": "0644", "owner": "root", "group": "root"}},
    }  # fmt: skip
    assert roles.unwell(found, {"a.service": ""}, {}) == []
    assert "on CPUs 0-1, not on 0" in roles.unwell(found, {"a.service": "0"}, {})[0]
    assert "journalctl -u b.service" in roles.unwell(found, {"b.service": ""}, {})[0]
    assert "not enabled" in roles.unwell(found, {"c.service": ""}, {})[0]
    assert "d.service is absent" in roles.unwell(found, {"d.service": ""}, {})[0]
    assert roles.unwell(found, {}, {"/key": "0600 root root"}) == ["/key is 0644 root root, not 0600 root root"]


def test_a_part_that_runs_an_older_environment_is_told() -> None:
    unit = {"ActiveState": "active", "UnitFileState": "enabled", "cpus": ["0"], "environment": "old"}
    found = FOUND | {"units": {"a.service": unit}, "environment": "new"}
    assert "a.service runs an older environment, old" in roles.unwell(found, {"a.service": ""}, {})[0]
    assert roles.unwell(found | {"environment": "old"}, {"a.service": ""}, {}) == []


def test_hosts_whose_samples_do_not_arrive_are_told() -> None:
    rows = [{"host": "a", "state": "current"}, {"host": "b", "state": "late"}]
    assert roles.unseen({"rows": rows}, ["a", "b", "c"]) == ["b", "c"]


def test_parts_end_before_what_they_send_to() -> None:
    unit = {"ActiveState": "active", "UnitFileState": "enabled"}
    names = ["firewall", "shard@7601", "shard@7600", "filter", "archive", "serve", "probe"]
    units = {f"shardpulse-{name}.service": unit for name in names} | {
        "redis-server.service": unit,
        "shardpulse-x.service": {},
    }
    ended = roles.stopping(FOUND | {"units": units})
    assert [name.removeprefix("shardpulse-").removesuffix(".service") for name in ended] == [
        "probe", "serve", "archive", "filter", "shard@7600", "shard@7601", "firewall",
    ]  # fmt: skip


@pytest.mark.parametrize(("state", "mask"), [("masked", ["/etc/systemd/system/redis-server.service"]), ("enabled", [])])
def test_what_is_removed_is_what_was_made(state: str, mask: list[str]) -> None:
    units = {"redis-server.service": {"UnitFileState": state}, "valkey-server.service": {"UnitFileState": ""}}
    found = FOUND | {"places": ["/opt/shardpulse"], "units": units}
    assert [one["path"] for one in roles.leftovers(found)] == ["/opt/shardpulse", *mask]
