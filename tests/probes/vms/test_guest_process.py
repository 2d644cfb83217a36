"""Which processes run a guest, and its figures: vCPUs by threads or open files, memory, taps."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from math import isnan
from pathlib import Path

import pytest

from acquisition.model.codes import FIRST, MISSING, RANGE, RATE, VALID
from probes.checks import rate
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources.procfs_vms import VmSource
from probes.vms import guest_process
from probes.vms.guest_process import VcpuFinder, configuration, executable, guest_of, taps
from probes.vms.qemu import parse
from tests.support import FIXTURES
from tests.support.guest_proc import GuestProc, words_of
from tests.support.waiting import eventually

PLUGGED = ["/usr/bin/qemu-system-x86_64", "-name", "guest=web", "-uuid", "1-1", "-smp", "2,maxcpus=8", "-m", "4096"]
METRICS = [metric.name for metric in VMS.metrics]


@pytest.fixture
def proc(tmp_path: Path) -> GuestProc:
    return GuestProc(tmp_path)


class Sampled:
    """The VMs of a directory like /proc, a second apart."""

    def __init__(self, proc: GuestProc) -> None:
        facts = HostFacts("host-a", str(proc.path))
        self._source = VmSource(VMS, facts, Discovery(facts, Selection(), 5.0))
        self._check = rate.build(VMS, {})
        self._seconds = 10.0

    def reading(self, seconds: float = 1.0) -> Reading:
        self._seconds += seconds
        found = self._source.sample(1000.0 + self._seconds, self._seconds)
        assert found is not None
        found = found._replace(cores=16)  # whatever this machine has
        self._check(found)
        return found

    def values(self, seconds: float = 1.0) -> dict[str, tuple[float, int]]:
        """Value and code by metric, of the first VM."""
        found = self.reading(seconds)
        return {name: (found.values[place], found.codes[place]) for place, name in enumerate(METRICS)}

    def close(self) -> None:
        self._source.close()


@pytest.fixture
def sampled(proc: GuestProc) -> Iterator[Callable[[], Sampled]]:
    made: list[Sampled] = []
    yield lambda: (made.append(Sampled(proc)), made[-1])[1]
    for each in made:
        each.close()


# --- which processes ---------------------------------------------------------------------------------------------


def guests(proc: GuestProc) -> set[int]:
    found = Discovery(HostFacts("h", str(proc.path)), Selection(), 5.0)
    found.scan()
    return set(found.guests)


@pytest.mark.parametrize(
    ("program", "words", "expected"),
    [
        (None, ["/usr/bin/kvm", "-m", "5"], True),
        ("/nix/store/x/bin/.qemu-system-x86_64-wrapped", ["qemu-system-x86_64", "-m", "5"], True),
        ("/nix/store/x/bin/.qemu-system-x86_64-wrapped", ["anything", "-m", "5"], True),
        ("/usr/libexec/qemu-kvm (deleted)", ["/usr/libexec/qemu-kvm", "-m", "5"], True),
        ("/usr/bin/dash", ["qemu-system-x86_64", "-m", "5"], False),  # a name that anybody may choose
        ("/usr/bin/vim.basic", ["vim", "qemu-system-x86_64", "-m", "5"], False),
        (None, ["/bin/sh", "./kvm", "-m", "5"], False),
        (None, ["kvm-ok"], False),
        ("/usr/bin/qemu-img", ["qemu-img", "create", "-m", "4"], False),
        ("/usr/bin/qemu-system-x86_64", ["qemu-system-x86_64", "--version"], False),
        ("/usr/bin/qemu-system-x86_64", [], False),  # it has ended, and is not reaped
    ],
)
@pytest.mark.parametrize("command", ["kvm", "web-01", "qemu-system-x86"])
def test_guest_by_executable_and_options(
    proc: GuestProc, program: str | None, words: list[str], expected: bool, command: str
) -> None:
    proc.add(4711, words, command)
    if program is not None:
        proc.runs(4711, program)
    assert guests(proc) == ({4711} if expected else set())


def test_command_lines_are_read_once_without_executables(proc: GuestProc, monkeypatch: pytest.MonkeyPatch) -> None:
    for pid in range(100, 140):
        proc.add(pid, ["sleep", "1"], "sleep")
    proc.runs(100, "/usr/bin/sleep")
    read: list[str] = []
    real = guest_process.command_line
    monkeypatch.setattr(guest_process, "command_line", lambda base: (read.append(base), real(base))[1])
    found = Discovery(HostFacts("h", str(proc.path)), Selection(every=False), 5.0)
    found.scan()
    found._again.clear()  # as on a host where none of them is young
    assert len(read) == 39
    for _ in range(40):
        found._again.clear()
        found.scan()
    assert len(read) == 39
    stat = proc.path / "110" / "stat"
    stat.write_text(stat.read_text().replace("(sleep)", "(qemu-system-x86)"))  # it has become another program
    (proc.path / "110" / "cmdline").write_bytes(b"qemu-system-x86_64\0-m\x005\0")
    for _ in range(12):
        found.scan()
    assert set(found.guests) == {110}


def test_long_command_line_is_read_to_its_end(proc: GuestProc) -> None:
    disks = [word for number in range(4000) for word in ("-blockdev", f'{{"driver":"file","node-name":"d{number}"}}')]
    base = proc.add(4711, ["qemu-system-x86_64", *disks, "-name", "guest=last", "-m", "64"])
    found = guest_of(str(base), None)
    assert found is not None
    assert found.name == "last"


def test_program_of_a_live_process() -> None:
    assert executable("/proc/self") == os.path.realpath("/proc/self/exe")
    assert executable("/proc/0") is None


# --- vCPUs -------------------------------------------------------------------------------------------------------


def vcpu_names(count: int) -> list[str]:
    return ["qemu-system-x86", *(f"CPU {number}/KVM" for number in range(count)), "worker", "CPU 0"]


def test_vcpus_by_threads_follow_hotplug(proc: GuestProc, sampled: Callable[[], Sampled]) -> None:
    proc.add(4711, PLUGGED)
    proc.has_threads(4711, vcpu_names(2))
    vms = sampled()
    assert vms.values()["vcpu_count"] == (2.0, VALID)
    proc.has_threads(4711, vcpu_names(6))
    proc.spends(4711, 500, 500)
    values = vms.values()
    assert values["vcpu_count"] == (6.0, VALID)
    assert values["cpu_guest_ratio"] == (5.0, VALID)
    proc.has_threads(4711, vcpu_names(3))
    assert vms.values()["vcpu_count"] == (3.0, VALID)


def test_vcpus_that_may_have_been_plugged_are_missing(proc: GuestProc, sampled: Callable[[], Sampled]) -> None:
    proc.add(4711, PLUGGED)
    vms = sampled()
    vms.values()
    proc.spends(4711, 500, 500)
    values = vms.values()
    assert values["vcpu_count"][1] == MISSING
    assert isnan(values["vcpu_count"][0])
    assert values["cpu_guest_ratio"] == (5.0, VALID)


def test_vcpus_of_a_guest_that_has_all_come_from_its_options(proc: GuestProc, sampled: Callable[[], Sampled]) -> None:
    proc.add(4711, words_of("proxmox-hotplug"), "kvm")
    vms = sampled()
    vms.values()
    proc.spends(4711, 1000, 1000)
    values = vms.values()
    assert values["vcpu_count"] == (4.0, VALID)
    assert values["memory_assigned_bytes"] == (8704.0 * 2**20, VALID)
    assert values["cpu_guest_ratio"] == (10.0, RATE)


def test_vcpus_by_open_files_where_threads_have_no_names(proc: GuestProc) -> None:
    base = proc.add(4711, PLUGGED)
    proc.has_threads(4711, ["qemu-system-x86"] * 5)
    files = ["/dev/kvm", "anon_inode:kvm-vm", *(f"anon_inode:kvm-vcpu:{number}" for number in range(4))]
    proc.has_open(4711, [*files, "anon_inode:kvm-vcpu-stats:0", "anon_inode:kvm-vcpu-stats:1"])
    guest = guest_of(str(base), None)
    assert guest is not None
    assert VcpuFinder(str(proc.path)).find((4711, 1), guest, 1.0).number == 4


def test_threads_are_listed_when_their_number_changes_once_a_second(
    proc: GuestProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(4711, PLUGGED)
    proc.has_threads(4711, vcpu_names(2))
    guest = parse(PLUGGED)
    assert guest is not None
    listed: list[str] = []
    names = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: (listed.append(path), names(path))[1])
    vcpus = VcpuFinder(str(proc.path))
    assert [vcpus.find((4711, 1), guest, at).number for at in (1.0, 2.0, 9.0)] == [2, 2, 2]
    assert len(listed) == 2  # a thread that has just come may get its name yet
    proc.has_threads(4711, vcpu_names(4))
    assert vcpus.find((4711, 1), guest, 10.0).number == 4
    proc.has_threads(4711, vcpu_names(5))
    assert vcpus.find((4711, 1), guest, 10.5).number == 4  # not yet
    assert vcpus.find((4711, 1), guest, 11.0).number == 5
    assert len(listed) == 4
    assert vcpus.find((4711, 1), guest, 11.5, again=True).number == 5
    assert len(listed) == 5


def test_guest_that_has_all_its_vcpus_costs_nothing_at_a_tick(proc: GuestProc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(4711, words_of("opennebula"))
    proc.has_threads(4711, vcpu_names(2))
    guest = parse(words_of("opennebula"))
    assert guest is not None
    vcpus = VcpuFinder(str(proc.path))
    assert vcpus.find((4711, 1), guest, 1.0).number == 2
    monkeypatch.setattr(os, "stat", pytest.fail)
    assert vcpus.find((4711, 1), guest, 3.0).number == 2
    monkeypatch.undo()
    proc.has_threads(4711, vcpu_names(1))  # unplugged by hand
    assert vcpus.find((4711, 1), guest, 60.0, again=True).number == 1
    proc.has_threads(4711, vcpu_names(2))
    assert vcpus.find((4711, 1), guest, 61.0).number == 2


def test_guest_whose_vcpus_start_yet_is_counted_again(proc: GuestProc) -> None:
    proc.add(4711, PLUGGED)
    guest = parse(PLUGGED)
    assert guest is not None
    vcpus = VcpuFinder(str(proc.path))
    proc.has_threads(4711, [*vcpu_names(1), "qemu-system-x86"])
    assert vcpus.find((4711, 1), guest, 1.0).number == 1
    proc.has_threads(4711, vcpu_names(2))  # as many threads, and another has its name
    assert vcpus.find((4711, 1), guest, 2.0).number == 2


# --- a size that lies in a file ----------------------------------------------------------------------------------


def lay(path: Path) -> None:
    path.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / "qemu" / "lxd.conf", path)


@pytest.mark.parametrize("place", ["proc/4711/root", "."], ids=["as the process sees it", "as the host sees it"])
def test_size_from_the_file_that_can_be_read(proc: GuestProc, sampled: Callable[[], Sampled], place: str) -> None:
    proc.add(4711, words_of("lxd"))
    lay(proc.root / place / "var/snap/lxd/common/lxd/logs/v1/qemu.conf")
    values = sampled().values()
    assert values["vcpu_count"] == (4.0, VALID)
    assert values["memory_assigned_bytes"] == (10.0 * 2**30, VALID)


def test_size_from_a_file_that_cannot_be_read_is_missing(proc: GuestProc, sampled: Callable[[], Sampled]) -> None:
    proc.add(4711, words_of("lxd"))
    vms = sampled()
    vms.values()
    proc.spends(4711, 300, 300)
    values = vms.values()
    assert (values["vcpu_count"][1], values["memory_assigned_bytes"][1]) == (MISSING, MISSING)
    assert values["cpu_guest_ratio"] == (3.0, VALID)


def test_pipe_instead_of_a_file_blocks_nobody(proc: GuestProc) -> None:
    base = str(proc.add(4711, words_of("lxd")))
    os.mkfifo(proc.root / "pipe")
    assert configuration(base, "/pipe") is None
    for path in ("/dev/zero", "/proc/self/environ", "relative", "", "/" + "x" * 5000, "/a\ud800"):
        assert configuration(base, path) is None


# --- taps --------------------------------------------------------------------------------------------------------


def with_tap(proc: GuestProc) -> None:
    words = ["qemu-system-x86_64", "-name", "guest=web", "-uuid", "1-1", "-m", "2048", "-smp", "2"]
    proc.add(4711, [*words, "-accel", "kvm", "-incoming", "defer"])
    proc.has_open(4711, ["/dev/net/tun", "/dev/null"])
    (proc.path / "4711" / "fdinfo" / "10").write_text("pos:\t0\nflags:\t0104002\niff:\tvnet7\n")


def test_the_tap_of_a_guest(proc: GuestProc) -> None:
    with_tap(proc)
    assert taps(str(proc.path), 4711) == ["vnet7"]
    with pytest.raises(FileNotFoundError):
        taps(str(proc.path), 1)


def test_a_guest_sees_its_tap_from_the_other_side(proc: GuestProc, sampled: Callable[[], Sampled]) -> None:
    with_tap(proc)
    vms = sampled()
    [entity] = vms.reading().entities
    assert (entity.kind, entity.stable, entity.name) == ("vm", "1-1", "web")
    assert float(entity.labels["started"]) == pytest.approx(123456 / os.sysconf("SC_CLK_TCK"))
    assert (entity.labels["accelerator"], entity.labels["incoming"]) == ("kvm", "yes")
    (proc.path / "net" / "dev").write_bytes((FIXTURES / "proc" / "after" / "net" / "dev").read_bytes())
    values = vms.values(2.0)
    assert values["vcpu_count"] == (2, VALID)
    assert values["memory_assigned_bytes"] == (2 << 30, VALID)
    assert values["network_receive_bytes_per_second"] == (1500.0, VALID)  # what the host transmitted
    assert values["network_transmit_bytes_per_second"] == (500.0, VALID)


def test_a_jump_costs_a_guest_its_own_figures_and_one_tick(proc: GuestProc, sampled: Callable[[], Sampled]) -> None:
    with_tap(proc)
    proc.has_threads(4711, vcpu_names(2))
    proc.threads_had(4711, {1: (20_000_000, 0)})  # it has run
    vms = sampled()
    invalid = []
    for ran, sent in ((0, 0), (150, 10**6), (10**9, 10**12), (150, 10**12 + 10**6)):
        proc.spends(4711, ran, ran)
        (proc.path / "net" / "dev").write_text(f"vnet7: 5 0 0 0 0 0 0 0 {sent} 0 0 0 0 0 0 0\n")
        values = vms.values().items()
        invalid.append({name: code for name, (_, code) in values if code and not name.startswith("vcpu_")})
    jumped = {"cpu_guest_ratio": RATE, "cpu_ratio": RANGE, "network_receive_bytes_per_second": RATE}
    assert invalid[1:] == [{}, jumped, {}]


def test_a_guest_without_a_tap_has_no_traffic(proc: GuestProc, sampled: Callable[[], Sampled]) -> None:
    proc.add(4711, words_of("opennebula"))
    values = sampled().values()
    assert [values[f"network_{way}_bytes_per_second"][1] for way in ("receive", "transmit")] == [MISSING, MISSING]
    assert isnan(values["network_transmit_bytes_per_second"][0])
    assert values["vcpu_count"][1] == values["memory_assigned_bytes"][1] == VALID
    assert values["cpu_user_ratio"][1] == FIRST


def test_no_guests_no_rows(proc: GuestProc) -> None:
    facts = HostFacts("host-a", str(proc.path))
    source = VmSource(VMS, facts, Discovery(facts, Selection(), 5.0))
    assert source.sample(1.0, 1.0) is None
    source.close()


# --- a real qemu -------------------------------------------------------------------------------------------------


class Qmp:
    """The monitor of a qemu process."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(str(path))
        self._file = self._socket.makefile("rwb")
        self._file.readline()
        self.call("qmp_capabilities")

    def call(self, command: str, **arguments: object) -> Mapping[str, object]:
        self._file.write(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        self._file.flush()
        while "event" in (answer := json.loads(self._file.readline())):
            pass
        assert "return" in answer, answer
        found: Mapping[str, object] = answer
        return found

    def close(self) -> None:
        self._file.close()
        self._socket.close()


@contextmanager
def real_qemu(directory: Path, name: str) -> Iterator[tuple[int, Qmp]]:
    path = directory / "qmp"
    command = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-name", name, "-uuid", UUID, "-m", "32"]
    command += [
        "-smp",
        "2,maxcpus=4,sockets=4",
        "-display",
        "none",
        "-nodefaults",
        "-S",
        "-qmp",
        f"unix:{path},server=on,wait=off",
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            eventually(path.exists)
            with closing(eventually(lambda: _connected(path))) as monitor:
                yield process.pid, monitor
        finally:
            process.kill()


UUID = "0a1b2c3d-0000-4000-8000-00000000c0de"


def _connected(path: Path) -> Qmp | None:
    try:
        return Qmp(path)
    except ConnectionRefusedError:
        return None


@pytest.mark.needs("qemu-system-x86_64")
@pytest.mark.parametrize("threads", ["on", "off"])
def test_real_guest_under_any_name_follows_hotplug(tmp_path: Path, threads: str) -> None:
    facts = HostFacts("host-a")
    with real_qemu(tmp_path, f"guest=web,process=kvm-ok,debug-threads={threads}") as (pid, monitor):
        discovery = Discovery(facts, Selection(every=False), 1.0)
        discovery.scan()
        guest = discovery.guests[pid].guest
        assert guest is not None
        assert (guest.name, guest.uuid, guest.memory_bytes) == ("web", UUID, 32 << 20)
        assert (guest.vcpus, guest.most_vcpus) == (2, 4)
        vcpus = VcpuFinder(facts.proc)
        known = threads == "on"  # under TCG there is no other sign of them
        assert vcpus.find((pid, 1), guest, 1.0).number == (2 if known else None)
        driver = {"driver": "qemu64-x86_64-cpu", "id": "more", "core-id": 0, "thread-id": 0}
        monitor.call("device_add", **driver, **{"socket-id": 2})
        assert vcpus.find((pid, 1), guest, 2.0).number == (3 if known else None)
