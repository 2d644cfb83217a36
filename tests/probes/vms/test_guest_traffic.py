"""The traffic of each guest is that of its own taps, in its own network namespace; where it is not known a label says
why."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from acquisition.model.codes import FIRST, MISSING, VALID
from experiments.live_migration import Monitor
from experiments.testbed.namespace import Namespace
from probes.captures.capture import Tick
from probes.figures.network import Traffic
from probes.loop.account import lacking
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_vms import MISSING_NETWORK, VmSource
from probes.vms.guest_traffic import ELSEWHERE, MACVTAP, NO_RIGHT, NO_TAP
from tests.support.guest_proc import GuestProc, words_of
from tests.support.processes import started
from tests.support.waiting import eventually

TRAFFIC = VMS.select(("network_receive_bytes_per_second", "network_transmit_bytes_per_second"))
FRAME = b"\xff" * 6 + b"\x02" + bytes(5) + b"\x88\xb5" + bytes(986)  #: 1,000 bytes that nobody answers
WITHOUT = [(pytest.approx(float("nan"), nan_ok=True), MISSING)] * 2
needs_namespaces = pytest.mark.skipif(
    os.geteuid() != 0 or bool(lacking()) or shutil.which("ip") is None or not os.path.exists("/dev/net/tun"),
    reason="guests in network namespaces need root, ip (apt install iproute2) and /dev/net/tun",
)


class Host:
    """The VMs of this machine, or of a directory like /proc, read a second apart by a clock of its own."""

    def __init__(self, proc: str = "/proc") -> None:
        facts = HostFacts("host-a", proc)
        self._discovery = Discovery(facts, Selection(every=False), 0.001)
        self._source = VmSource(TRAFFIC, facts, self._discovery)
        self._seconds = 10.0

    def guests(self) -> dict[str, tuple[list[tuple[float, int]], str]]:
        """By name: what each receives and transmits, with codes, and why that is missing."""
        self._seconds += 1.0
        reading = self._source.sample(1000.0 + self._seconds, self._seconds)
        assert reading is not None
        cells = list(zip(reading.values, reading.codes, strict=True))
        return {
            entity.name: (cells[2 * row : 2 * row + 2], entity.labels.get(MISSING_NETWORK, ""))
            for row, entity in enumerate(reading.entities)
        }

    def close(self) -> None:
        self._source.close()


@contextmanager
def guest(directory: Path, name: str, *before: str, options: tuple[str, ...] = ()) -> Iterator[tuple[int, Monitor]]:
    """A process of qemu whose guest halts, started by the command ``before``."""
    path, rom = directory / name, directory / "rom"
    rom.write_bytes((b"\xf4" * 0xFFF0 + b"\xfa\xf4\xeb\xfd").ljust(1 << 16, b"\xf4"))
    words = ["qemu-system-x86_64", "-accel", "tcg", "-name", name, "-m", "16", "-display", "none", "-nodefaults"]
    words += ["-bios", str(rom)]
    qmp = f"unix:{path},server=on,wait=off"
    words += [*options, "-qmp", qmp]
    with started([*before, *words], stdin=subprocess.DEVNULL) as process, closing(Monitor(path)) as monitor:
        yield process.pid, monitor


def plug(monitor: Monitor, pid: int) -> None:
    """Give a guest two cards in one hub, so that qemu carries from one to the other what the kernel sends."""
    for number in range(2):
        monitor.ask("netdev_add", type="tap", id=f"n{number}", ifname=f"tap{number}", script="no", downscript="no")
        monitor.ask("netdev_add", type="hubport", id=f"h{number}", hubid=0, netdev=f"n{number}")
        subprocess.run(["nsenter", "-t", str(pid), "-n", "ip", "link", "set", f"tap{number}", "up"], check=True)


def send(namespace: Namespace, pid: int, frames: int) -> None:
    """Send so many frames into the tap of a guest, and wait until they have come out of its other one."""
    before = carried(pid)
    with namespace.inside(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
        sender.bind(("tap0", 0))
        for number in range(1, frames + 1):
            sender.send(FRAME)
            eventually(lambda number=number: carried(pid) >= before + number * len(FRAME))  # type: ignore[misc]


def carried(pid: int) -> int:
    with closing(Traffic(f"/proc/{pid}")) as traffic:
        return traffic.read()["tap1"][0]


@needs_namespaces
@pytest.mark.needs("qemu-system-x86_64")
def test_taps_of_one_name_in_two_namespaces(tmp_path: Path) -> None:
    with ExitStack() as stack:
        here, there = (stack.enter_context(closing(Namespace.create())) for _ in range(2))
        for namespace in (here, there):  # no address, no packets of the kernel's own
            with namespace.inside():
                Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        stack.enter_context(here.inside())
        host = stack.enter_context(closing(Host()))
        own, own_monitor = stack.enter_context(guest(tmp_path, "own"))
        with there.inside():
            far, far_monitor = stack.enter_context(guest(tmp_path, "far"))
        eventually(lambda: {"own", "far"} <= host.guests().keys())
        found = host.guests()
        assert (found["own"], found["far"]) == ((WITHOUT, NO_TAP), (WITHOUT, NO_TAP))
        plug(own_monitor, own)
        plug(far_monitor, far)
        found, later = host.guests(), host.guests()
        for name in ("own", "far"):
            codes = [[code for _, code in cells] for cells, _ in (found[name], later[name])]
            assert codes in ([[FIRST] * 2, [VALID] * 2], [[MISSING] * 2, [FIRST] * 2])
            assert later[name][1] == ""
        send(here, own, 3)
        send(there, far, 40)
        found = host.guests()
        assert found["own"] == ([(3000.0, VALID), (3000.0, VALID)], "")
        assert found["far"] == ([(40000.0, VALID), (40000.0, VALID)], "")
        assert seen_without_rights(own)[:2] == [MISSING_NETWORK, NO_RIGHT]


def seen_without_rights(pid: int) -> list[str]:
    """The label of a process for a user who may not look into it."""
    look = (
        "import sys; from tests.probes.vms.test_guest_traffic import *; host = Host(); host.guests();"
        "print(MISSING_NETWORK, host.guests()['own'][1], sep='\\n')"
    )
    command = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", look]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


@needs_namespaces
@pytest.mark.needs("qemu-system-x86_64")
def test_traffic_of_a_macvtap_is_missing(tmp_path: Path) -> None:
    script = (
        "ip link add d0 type veth peer name d1 && ip link add link d0 name m0 type macvtap || exit 0;"
        'mount -t sysfs s /sys; set -- /sys/class/net/m0/tap* "$@"; IFS=: read a b <$1/dev; mount -t tmpfs t /dev;'
        'n=${1##*/}; shift; mknod /dev/$n c $a $b; exec 3<>/dev/$n; exec "$@"'
    )
    probe = subprocess.run(["unshare", "-mn", "sh", "-c", script, "sh", "echo", "yes"], capture_output=True, text=True)
    if "yes" not in probe.stdout:
        pytest.skip(f"no macvtap here: {probe.stderr.strip()}")
    run = ("unshare", "-mn", "sh", "-c", script, "sh")
    with guest(tmp_path, "mv", *run, options=("-netdev", "tap,id=n,fd=3")), closing(Host()) as host:
        eventually(lambda: "mv" in host.guests())
        assert host.guests()["mv"] == (WITHOUT, MACVTAP)


def with_taps(proc: GuestProc, *names: str) -> None:
    proc.add(4711, words_of("libvirt"))
    proc.has_open(4711, ["/dev/net/tun"] * len(names))
    for number, name in enumerate(names, 10):
        (proc.path / "4711" / "fdinfo" / str(number)).write_text(f"pos:\t0\niff:\t{name}\n")


def test_tap_that_is_elsewhere_leaves_no_part_of_a_sum(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    with_taps(proc, "vnet7", "gone0")
    with closing(Host(str(proc.path))) as host:
        host.guests()
        assert host.guests()["web"] == (WITHOUT, ELSEWHERE)


def test_card_is_seen_soon_where_the_kernel_counts_no_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("probes.vms.guest_traffic._size", lambda path: 0)
    proc = GuestProc(tmp_path)
    proc.add(4711, words_of("libvirt"))
    with closing(Host(str(proc.path))) as host:
        assert host.guests()["web"] == (WITHOUT, NO_TAP)
        shutil.rmtree(proc.path / "4711")
        with_taps(proc, "vnet7")
        codes = [[code for _, code in host.guests()["web"][0]] for _ in range(3)]
    assert codes.index([FIRST, FIRST]) < 2
    assert codes[-1] == [VALID, VALID]


def test_card_of_another_name_is_seen_soon(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    with_taps(proc, "vnet7")
    with closing(Host(str(proc.path))) as host:
        host.guests()
        (proc.path / "4711" / "fdinfo" / "10").write_text("pos:\t0\niff:\tvnet8\n")
        (proc.path / "net" / "dev").write_text("vnet8: 5 0 0 0 0 0 0 0 5 0\n")
        codes = [[code for _, code in host.guests()["web"][0]] for _ in range(4)]
    assert [FIRST] * 2 in codes[:3]
    assert codes[-1] == [VALID] * 2


def test_capture_includes_interfaces_of_namespaced_guest(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    with_taps(proc, "vnet7")
    own = proc.path / "4711" / "net" / "dev"
    own.parent.mkdir()
    os.link(proc.path / "net" / "dev", own)
    assert str(own.relative_to(tmp_path)) not in Tick(root=str(tmp_path)).read().contents
    own.unlink()
    own.write_text("vnet7: 1 0 0 0 0 0 0 0 2 0\n")
    assert Tick(root=str(tmp_path)).read().contents["proc/4711/net/dev"] == own.read_bytes()


def test_counters_of_a_tap_that_was_away_begin_again(tmp_path: Path) -> None:
    proc = GuestProc(tmp_path)
    with_taps(proc, "vnet7")
    with closing(Host(str(proc.path))) as host:
        codes = []
        for text in (
            "vnet7: 5 0 0 0 0 0 0 0 5 0",
            "",
            "vnet7: 900 0 0 0 0 0 0 0 900 0",
            "vnet7: 950 0 0 0 0 0 0 0 960 0",
        ):
            (proc.path / "net" / "dev").write_text(f"{text}\n")
            codes.append([code for _, code in host.guests()["web"][0]])
    assert codes == [[FIRST] * 2, [MISSING] * 2, [FIRST] * 2, [VALID] * 2]
