"""Hosts with systemd: what they can do, what they keep and what they lose, and that nothing of them stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from experiments.hosts.host import CGROUPS
from tests.support import ROOT
from tests.support.hosts import Host, sources
from tests.support.hosts.demanded import hosts_for_a_test
from tests.support.processes import started
from tests.support.waiting import eventually

pytestmark = [pytest.mark.hosts, pytest.mark.alone, pytest.mark.needs("debootstrap", "ssh")]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Host]]:
    with hosts_for_a_test(tmp_path_factory.mktemp("hosts"), ["one", "two"]) as running:
        yield running


@pytest.fixture
def one(hosts: Mapping[str, Host]) -> Host:
    return hosts["one"]


def test_a_host_is_a_machine_of_its_own(hosts: Mapping[str, Host]) -> None:
    for name, host in hosts.items():
        assert host.ssh("systemctl is-system-running; cat /proc/1/comm; hostname") == f"running\nsystemd\n{name}\n"
        assert host.address in host.ssh("ip -4 -brief address show eth0")
    assert hosts["one"].ssh("cat /etc/machine-id") != hosts["two"].ssh("cat /etc/machine-id")
    hosts["one"].ssh("python3 -c 'import socket; socket.create_connection((\"two\", 22))'")


def test_a_power_cut_takes_what_lay_in_memory(one: Host) -> None:
    one.ssh("echo kept > /var/kept; sync; echo lost > /dev/shm/lost")
    boot = one.ssh("cat /proc/sys/kernel/random/boot_id")
    one.kill()
    assert not one.running
    assert one.try_ssh("true").returncode == 255
    assert one.cgroups() == []
    one.start()
    assert one.ssh("cat /var/kept; ls /dev/shm; systemctl is-system-running") == "kept\nrunning\n"
    assert one.ssh("cat /proc/sys/kernel/random/boot_id") != boot


def test_a_reboot_is_in_order(one: Host) -> None:
    boot = one.ssh("cat /proc/sys/kernel/random/boot_id")
    one.reboot()
    assert one.ssh("cat /proc/sys/kernel/random/boot_id") != boot
    assert "Stopping ssh.service" in one.ssh("journalctl --boot=-1 --unit=ssh --no-pager")


def test_a_host_that_is_switched_off_from_inside_stays_off(hosts: Mapping[str, Host]) -> None:
    two = hosts["two"]
    two.try_ssh("systemctl poweroff")
    eventually(lambda: not two.running, says=two.said)
    two.start()


def test_limits_are_enforced(one: Host) -> None:
    unit = "systemd-run --wait --property=MemoryMax=40M --property=MemorySwapMax=0 python3 -c"
    assert one.try_ssh(f"{unit} 'bytearray(10 << 20)'").returncode == 0
    assert "status=KILL" in one.try_ssh(f"{unit} 'bytearray(80 << 20)'").stderr
    unit = "systemd-run --wait --property=TasksMax=3 sh -c"
    assert one.try_ssh(f"{unit} 'sleep 0'").returncode == 0
    assert one.try_ssh(f"{unit} 'set -e; for i in 1 2 3 4 5; do sleep 1 & done'").returncode != 0


def test_service_gets_credentials_from_root_only_file(one: Host) -> None:
    one.write("/etc/secret", "open sesame", mode="400")
    show = "stat -c %a $CREDENTIALS_DIRECTORY/word; cat $CREDENTIALS_DIRECTORY/word"
    unit = "systemd-run --pipe --wait --quiet --property=User=admin --property=LoadCredential=word:/etc/secret"
    assert one.ssh(f"{unit} sh -c '{show}'") == "400\nopen sesame"


def test_no_host_changes_the_machine(one: Host) -> None:
    """Settings of the kernel are the machine's. A host has copies of some, so that a deployment can be tried."""
    setting = Path("/proc/sys/vm/overcommit_memory")
    before = setting.read_text()
    assert one.ssh(f"cat {setting}") == before
    other = "1" if before.strip() != "1" else "0"
    assert one.ssh(f"sysctl -q -w vm.overcommit_memory={other}; cat {setting}").strip() == other
    assert setting.read_text() == before
    assert one.try_ssh("sysctl -w kernel.pid_max=32768").returncode
    assert one.try_ssh("date --set=@0").returncode
    assert one.try_ssh("echo 1 > /sys/kernel/mm/ksm/run").returncode


def test_hosts_reach_only_what_is_forwarded() -> None:
    """The source here is a server of the test's: nothing goes out."""
    with socket.create_server(("127.0.0.1", 0)) as far:
        port = far.getsockname()[1]

        def answer() -> None:
            connection, _ = far.accept()
            with connection:
                connection.sendall(connection.recv(100).upper())

        threading.Thread(target=answer, daemon=True).start()
        with (
            sources.forwarding([("127.0.0.9", sources.Source("127.0.0.1", port))]),
            socket.create_connection(("127.0.0.9", port), timeout=10) as near,
        ):
            near.sendall(b"packages")
            assert near.recv(100) == b"PACKAGES"
            assert near.recv(100) == b""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_stays_however_it_ends(end: signal.Signals, hosts: Mapping[str, Host], tmp_path: Path) -> None:
    """``hosts`` made the tree, and they go on."""
    command = [sys.executable, "-m", "tests.support.hosts", "up", str(tmp_path), "--count", "2"]
    with started(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(3)]
        assert [line.split()[0] for line in said] == ["node1", "node2", "ssh"], said
        ssh = [*said[2].partition("     ")[0].split(), "hostname"]
        assert subprocess.run(ssh, capture_output=True, text=True).stdout == "node1\n"
        assert traces(tmp_path, process.pid)
        process.send_signal(end)
        assert process.wait(30) == (-9 if end == signal.SIGKILL else 0)
    eventually(lambda: not traces(tmp_path, process.pid), says=lambda: traces(tmp_path, process.pid))
    for host in hosts.values():
        assert host.ssh("true") == ""


def traces(directory: Path, pid: int) -> list[str]:
    """What there is of the hosts of a directory: processes, mounts, cgroups, interfaces."""
    found = [f"process {each.name}" for each in Path("/proc").glob("[0-9]*") if _is_of(each, directory)]
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(directory) in line]
    links = [name for name in os.listdir("/sys/class/net") if name.startswith(f"sp{pid}u")]
    cgroups = [str(each) for depth in ("", "*/") for each in CGROUPS.glob(f"{depth}shardpulse-{pid}-*")]
    return [*found, *mounts, *links, *cgroups]


def _is_of(process: Path, directory: Path) -> bool:
    try:
        words = (process / "cmdline").read_bytes()
        mounts = (process / "mountinfo").read_text()
    except OSError:
        return False
    return f"{directory}/node".encode() in words or f"{directory}/node" in mounts
