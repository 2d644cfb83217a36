"""The units of deploy/systemd on a host with systemd, with a shard that speaks TLS: what they promise, they do."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from experiments.hosts.site import build_wheels
from tests.support.hosts.demanded import hosts_for_a_test
from tests.support.hosts.product import ETC, PARTS, PORT, Installed
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh", "openssl")]

WELL = {
    "probe": "sampling node1: ",
    "filter": "smoothing 64 partitions",
    "serve": "answering",
    "archive": "following 64 partitions into sqlite:///",
}
CAPABILITIES = 1 << 12 | 1 << 19 | 1 << 2  #: CAP_NET_ADMIN, CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH
MIB = 1 << 20


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    with hosts_for_a_test(tmp_path_factory.mktemp("units"), ["node1"], packages=["redis-server"]) as hosts:
        made = Installed(hosts["node1"], tmp_path_factory.mktemp("product"))
        wheels = tmp_path_factory.mktemp("wheels")
        build_wheels(wheels)
        made.install(wheels)
        yield made


@pytest.fixture
def running(installed: Installed) -> Installed:
    """All parts are well."""
    for part, said in WELL.items():
        installed.says(part, said)
    return installed


def test_all_parts_are_ready_and_samples_arrive(running: Installed) -> None:
    for part in (*PARTS, f"shard@{PORT}"):
        assert running.property(part, "ActiveState") == "active"
        assert running.property(part, "NRestarts") == "0"
        assert running.property(part, "Type") == "notify"
    pid = running.property(f"shard@{PORT}", "MainPID")
    assert "Cpus_allowed_list:\t0\n" in running.host.ssh(f"cat /proc/{pid}/status")
    eventually(lambda: running.books()["applied"] > 0, 60)
    assert running.books()["lost"] == 0
    asked = "import urllib.request as r; print(r.urlopen('http://127.0.0.1:7700/v1/hosts').read().decode())"
    running.until("serve", lambda: "node1" in running.host.try_ssh(f'python3 -c "{asked}"').stdout)
    for part in PARTS:
        own = f"journalctl --boot --quiet --no-pager --priority=warning _SYSTEMD_UNIT=shardpulse-{part}.service"
        assert running.host.ssh(own) == ""


def test_the_units_expose_little(running: Installed) -> None:
    """Of 10, by systemd itself; the probe sees all processes and reads files of all users."""
    for part, most in {"filter": 1.5, "serve": 1.5, "archive": 1.5, f"shard@{PORT}": 1.5, "probe": 2.4}.items():
        said = running.host.ssh(f"systemd-analyze security --no-pager shardpulse-{part}")
        level = float(said.rpartition(": ")[2].split()[0])
        assert level <= most, said


def test_limits_hold_the_budgets(running: Installed) -> None:
    for part, least in {"filter": 256, "serve": 256, "archive": 256, "probe": 64}.items():
        limit, now = int(running.property(part, "MemoryMax")), int(running.property(part, "MemoryCurrent"))
        assert least * MIB <= limit < 1 << 40
        assert now < 256 * MIB
        assert int(running.property(part, "TasksCurrent")) * 2 <= int(running.property(part, "TasksMax"))
    assert int(running.property("probe", "MemoryCurrent")) < 48 * MIB  # with its ring


def test_a_password_is_lent_and_nobody_else_reads_it(running: Installed) -> None:
    for part in PARTS:
        lent = f"/run/credentials/shardpulse-{part}.service"
        assert running.host.ssh(f"stat -c '%a %U' {lent}/password") == "400 shardpulse\n"
        assert running.host.ssh(f"stat -c '%a %U' {ETC}/{part}.password") == "400 root\n"
        assert running.host.try_ssh(f"sudo -u admin cat {lent}/password").returncode
        pid = running.property(part, "MainPID")
        password = running.host.ssh(f"cat {ETC}/{part}.password").strip()
        assert password not in running.host.ssh(
            f"tr '\\0' ' ' < /proc/{pid}/cmdline; tr '\\0' ' ' < /proc/{pid}/environ"
        )


def test_a_part_that_stands_still_is_ended_and_started_again(running: Installed) -> None:
    """All at once, with a watchdog of 3 instead of 30 seconds."""
    try:
        for part in PARTS:
            running.change(part, "WatchdogSec=3")
        for part in PARTS:
            running.says(part, WELL[part])
        before = {part: running.property(part, "MainPID") for part in PARTS}
        for part in PARTS:
            running.host.ssh(f"kill -STOP {before[part]}")
        for part in PARTS:
            running.until(part, lambda part=part: running.property(part, "MainPID") not in {"0", before[part]})
            running.says(part, WELL[part])
            assert "Watchdog timeout" in running.host.journal(f"shardpulse-{part}")
    finally:
        for part in PARTS:
            running.restore(part)


def test_a_part_that_fails_again_and_again_is_still_started(running: Installed) -> None:
    """Seven times within seconds, where five are systemd's limit for a unit that does not say otherwise."""
    try:
        running.change("serve", "RestartSec=100ms")
        for _ in range(7):
            pid = running.property("serve", "MainPID")
            running.host.ssh(f"kill -KILL {pid}")
            running.until("serve", lambda pid=pid: running.property("serve", "MainPID") not in {"0", pid})
        running.says("serve", WELL["serve"])
    finally:
        running.restore("serve")


@pytest.mark.parametrize("part", [*PARTS, f"shard@{PORT}"])
def test_a_part_without_its_configuration_is_not_started_and_says_why(part: str, installed: Installed) -> None:
    host = installed.host
    missing = [f"{ETC}/{part}.toml", f"{ETC}/{part}.password"] if part in PARTS else [f"{ETC}/shard-{PORT}/redis.conf"]
    for path in missing:
        host.ssh(f"systemctl stop shardpulse-{part}; mv {path} {path}.away; systemctl start shardpulse-{part}")
        try:
            assert installed.property(part, "ActiveState") == "inactive"
            said = host.try_ssh(f"systemctl status --no-pager shardpulse-{part}").stdout
            assert f"unmet condition check (ConditionPathExists={path})" in said
        finally:
            host.ssh(f"mv {path}.away {path}; systemctl start shardpulse-{part}", seconds=120)


def test_the_ring_outlives_the_probe(running: Installed) -> None:
    """What the filter has not read when the probe is killed is not lost, nor what is made while there is no shard."""
    host = running.host
    host.ssh("systemctl stop shardpulse-filter", seconds=120)
    pid = running.property("probe", "MainPID")
    host.ssh(f"kill -KILL {pid}")
    running.until("probe", lambda: running.property("probe", "MainPID") not in {"0", pid})
    running.says("probe", "sampling node1")
    assert running.property("probe", "NRestarts") == "1"
    host.ssh("systemctl restart shardpulse-probe", seconds=120)
    host.ssh("systemctl start shardpulse-filter", seconds=120)
    running.says("filter", WELL["filter"])
    made = running.books()["made"]
    eventually(lambda: running.books()["applied"] >= made, 60, says=running.books)
    books = running.books()
    assert (books["lost"], books["balanced"]) == (0, True)
    assert host.ssh("stat -c '%a %U' /run/shardpulse-probe") == "700 shardpulse\n"


def test_a_clean_stop_sends_what_is_left(running: Installed) -> None:
    running.host.ssh("systemctl stop shardpulse-probe", seconds=120)
    assert running.property("probe", "Result") == "success"
    assert "Deactivated successfully" in running.host.journal("shardpulse-probe")
    eventually(lambda: running.books()["pending"] == 0, 60, says=running.books)
    books = running.books()
    assert books["made"] == books["applied"] + books["before"]
    assert books["lost"] == 0
    running.host.ssh("systemctl start shardpulse-probe", seconds=120)


@pytest.mark.parametrize("part", ["probe", "filter", "serve"])
def test_a_reload_keeps_the_process(part: str, running: Installed) -> None:
    """Also of a file that is wrong: it goes on as before, and says so."""
    host, path = running.host, f"{ETC}/{part}.toml"
    good = host.ssh(f"cat {path}")
    pid = running.property(part, "MainPID")
    host.ssh(f"systemctl reload shardpulse-{part}", seconds=120)
    try:
        host.write(path, good + "[nonsense]\n")
        host.try_ssh(f"systemctl reload shardpulse-{part}", seconds=120)
        running.until(part, lambda: "nonsense" in host.journal(f"shardpulse-{part}", "--priority=warning"))
        running.until(part, lambda: "unchanged" in host.journal(f"shardpulse-{part}", "--priority=warning"))
    finally:
        host.write(path, good)
    host.ssh(f"systemctl reload shardpulse-{part}", seconds=120)
    running.says(part, WELL[part])
    assert running.property(part, "MainPID") == pid


def test_a_probe_says_what_it_may_not_do(running: Installed) -> None:
    host = running.host

    def may() -> int:
        status = host.ssh(f"cat /proc/{running.property('probe', 'MainPID')}/status")
        return int(status.partition("CapEff:")[2].split()[0], 16)

    assert may() == CAPABILITIES
    assert "run without CAP_" not in host.journal("shardpulse-probe")
    try:
        running.change("probe", "AmbientCapabilities=\nCapabilityBoundingSet=")
        running.says("probe", WELL["probe"])
        assert may() == 0
        running.until("probe", lambda: "CAP_NET_ADMIN" in host.journal("shardpulse-probe"))
        assert "CAP_SYS_PTRACE" in host.journal("shardpulse-probe")
    finally:
        running.restore("probe")


def test_a_shard_that_is_gone_is_said_once_and_gravely(running: Installed) -> None:
    """Of each part to journald, with the priority of a warning at least; when it is back all go on, and nothing is
    lost that probes hold."""
    host = running.host
    host.ssh(f"systemctl stop shardpulse-shard@{PORT}", seconds=120)
    for part in PARTS:
        own = f"journalctl --boot --quiet --no-pager --priority=warning _SYSTEMD_UNIT=shardpulse-{part}.service"
        running.until(part, lambda own=own: str(running.address) in host.ssh(own))
        assert running.property(part, "ActiveState") == "active"
        assert not running.property(part, "StatusText").startswith(WELL[part])
