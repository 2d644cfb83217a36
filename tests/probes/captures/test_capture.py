"""A capture of this machine holds what the probe reads, no secret, and no name where that was asked for."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.cli import main as shardpulse
from acquisition.errors import CannotCreateError, UsageError
from probes import capture_command, replay_command
from probes.captures import capture_options
from probes.captures.capture import Tick
from probes.vms import qemu
from tests.support import ROOT
from tests.support.waiting import eventually

SECRET = "S3CR3T"
UUID = "9b793bd8-30b0-400d-8196-6264858d3304"
OPTIONS = [
    "-name", "guest=web,process=qemu:web,debug-threads=on", "-uuid", UUID, "-smp", "2,maxcpus=4", "-m", "size=1048576k",
    "-object", f"secret,id=sec0,format=raw,data={SECRET}",
    "-object", f'{{"qom-type":"secret","id":"sec1","data":"{SECRET}"}}',
    "-object", '{"qom-type":"memory-backend-ram","id":"pc.ram","size":1073741824}',
    "-device", f'{{"driver":"pc-dimm","id":"dimm0","memdev":"mem0","x":"{SECRET}"}}',
    "-device", f"virtio-net-pci,mac={SECRET}", "-drive", f"file=rbd:pool/disk:key={SECRET}",
    "-vnc", f":1,password={SECRET}",
    "-spice", f"password={SECRET}", "-fw_cfg", f"name=opt/x,string={SECRET}", "-append", f"root=/dev/vda key={SECRET}",
    "-smbios", f"type=1,manufacturer=OpenStack Foundation,serial={SECRET},uuid={UUID}",
    "-smbios", f"type=11,value={SECRET}",
    "-incoming", f"tcp:{SECRET}:4444", "-machine", f"q35,x={SECRET}", f"-{SECRET}", f"--{SECRET}={SECRET}",
]  # fmt: skip
#: Opens of the three sources at two ticks, with every definition in Python, beside what a capture holds.
_OPENED = """
import os, sys
opened = set()
sys.addaudithook(lambda event, found: opened.add(os.fsdecode(found[0])) if event == "open" else None)
from probes.captures.capture import Tick
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.metrics import HOST, PROCESSES, VMS
from probes.sources import Request, create
facts = HostFacts("h")
discovery = Discovery(facts, Selection(pids=(int(sys.argv[1]),)), 5.0)
sources = [create("procfs", Request(each, 1.0, facts, discovery, print)) for each in (HOST, PROCESSES, VMS)]
opened.clear()
for monotonic in (1.0, 7.0):
    for source in sources:
        source.sample(monotonic, monotonic)
pids = {path: path.split("/")[2] for path in opened if path.startswith("/proc/")}
others = {path for path, pid in pids.items() if pid.isdecimal() and pid != sys.argv[1]}
wanted = {path for path in opened - others if path.startswith(("/proc", "/sys"))}
print(*sorted(path for path in wanted - {f"/{path}" for path in Tick().read().contents} if os.path.exists(path)))
"""


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[int]:
    """A process that looks like a virtual machine, with secrets in its arguments and its environment; its pid."""
    program = tmp_path / "bin" / "qemu-system-x86_64"
    program.parent.mkdir()
    shutil.copy("/bin/bash", program)
    environment = {**os.environ, "PASSWORD": SECRET}
    with (
        subprocess.Popen([program, "-c", "read line", *OPTIONS], stdin=subprocess.PIPE, env=environment) as vm,
        subprocess.Popen(["/bin/bash", "-c", "read line", SECRET], stdin=subprocess.PIPE, env=environment) as other,
    ):
        for process in (vm, other):
            eventually(partial(shows_its_arguments, process.pid))
        yield vm.pid
        for process in (vm, other):
            assert process.stdin is not None
            process.stdin.close()


def shows_its_arguments(pid: int) -> bool:
    """Whether a process runs its own program already."""
    return SECRET in Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8")


def texts(directory: Path) -> str:
    """Every path and every text of a capture."""
    found = []
    for path in directory.rglob("*"):
        found.append(str(path.relative_to(directory)))
        if path.is_symlink():
            found.append(os.readlink(path))
        elif path.is_file():
            found.append(path.read_bytes().decode(errors="replace"))
    return "\n".join(found)


def run(*arguments: str) -> list[dict[str, Any]]:
    """What a command prints, a document per line."""
    done = subprocess.run([sys.executable, "-m", "acquisition", *arguments], cwd=ROOT, capture_output=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def missing(entity: dict[str, Any]) -> set[str]:
    return {name for name, sample in entity["invalid"].items() if sample["code"] == "MISSING"}


def test_replay_of_a_capture_gives_what_a_dry_run_gives(machine: int, tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    assert capture_command.main(["--seconds", "1", str(directory)]) == 0
    live, replayed = run("probe", "--dry-run", "--ticks", "2"), run("replay", "proc", str(directory), "--strict")
    assert {each["resource_set"] for each in replayed} == {"host", "processes", "vms"}
    for name in ("host", "processes", "vms"):
        one, other = (
            {each["stable"]: each for each in documents[-1]["entities"]}
            for documents in ([each for each in found if each["resource_set"] == name] for found in (live, replayed))
        )
        both = one.keys() & other.keys()
        lasting = {stable for stable in both if one[stable]["name"] == other[stable]["name"]}
        assert 2 * len(lasting) > len(both)  # others have become other programs meanwhile
        for stable in lasting:
            assert missing(one[stable]) == missing(other[stable])
        if name == "vms":
            assert UUID in lasting
            for metric in ("vcpu_count", "memory_assigned_bytes"):
                assert one[UUID]["metrics"].get(metric) == other[UUID]["metrics"].get(metric)
    assert abs(replayed[-1]["time"] - replayed[0]["time"] - 1.0) < 0.5
    assert machine


def test_capture_holds_every_file_that_sources_open(machine: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _OPENED, str(machine)],
        cwd=ROOT, env={**os.environ, "SHARDPULSE_PURE_PYTHON": "1"}, capture_output=True, check=True, text=True,
    )  # fmt: skip
    own = {"/proc/loadavg"}  # which pids are new, where /proc is that of this process
    assert {path for path in done.stdout.split() if not path.startswith("/proc/self/")} <= own


def test_capture_holds_no_secret_and_is_private(machine: int, tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    assert shardpulse(["capture", "--seconds", "1", str(directory)]) == 0
    found = texts(directory)
    assert SECRET not in found
    assert "environ" not in found
    words = (directory / "t1" / "proc" / str(machine) / "cmdline").read_text().split("\0")
    assert words[3:11] == OPTIONS[:8]
    assert f"type=1,manufacturer=OpenStack Foundation,…,uuid={UUID}" in words
    assert not (directory / "t1" / "proc" / str(os.getpid()) / "cmdline").exists()
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)


def test_hashed_names_are_stable_and_cannot_be_read(machine: int, tmp_path: Path) -> None:
    directory = tmp_path / "mine"
    capture_command.main(["--seconds", "1", "--hash-names", str(directory)])
    host = json.loads((directory / "facts.json").read_text())["host"]
    assert host != os.uname().nodename
    stats = [(directory / f"t{tick}" / "proc" / str(os.getpid()) / "stat").read_text() for tick in range(2)]
    assert stats[0].split(")")[0] == stats[1].split(")")[0]
    own = Path("/proc/self/comm").read_text().strip()
    assert f"({own})" not in stats[0]
    words = (directory / "t0" / "proc" / str(machine) / "cmdline").read_text().split("\0")
    name, process, threads = words[4].split(",")
    assert name.startswith("guest=h")
    assert "web" not in name + process
    assert threads == "debug-threads=on"
    documents = [each for each in run("replay", "proc", str(directory)) if each["resource_set"] == "vms"]
    assert {each["name"] for each in documents[-1]["entities"] if each["stable"] == UUID} == {name[6:]}


def test_names_within_files_are_hashed_and_nothing_else(tmp_path: Path) -> None:
    base = tmp_path / "proc" / "70"
    base.mkdir(parents=True)
    numbers = " ".join(["S", *["0"] * 49])
    (base / "stat").write_text(f"70 (a (b) c) {numbers}\n")
    (base / "status").write_text("Name:\ta (b) c\nUid:\t0\t0\t0\t0\n")
    (base / "cgroup").write_text("4:cpu:/machine.slice/web.example.org.scope\n0::/a/web.example.org\n")
    found = Tick(lambda name: f"<{name}>", str(tmp_path)).read()
    assert found.contents == {
        "proc/70/stat": f"70 (<a (b) c>) {numbers}\n".encode(),
        "proc/70/status": b"Name:\t<a (b) c>\nUid:\t0\t0\t0\t0\n",
        "proc/70/cgroup": b"4:cpu:/<machine>.slice/<web.example.org>.scope\n0::/<a>/<web.example.org>\n",
    }


def test_directory_that_is_not_empty_or_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match="is not empty; give a new directory"):
        capture_command.main([str(tmp_path)])
    with pytest.raises(CannotCreateError, match="Not a directory"):
        capture_command.main([str(tmp_path / "file" / "mine")])
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize(
    "line",
    [
        "/usr/bin/kvm -id 302 -name web -daemonize -smbios type=1,uuid=9b793bd8-30b0-400d-8196-6264858d3300 "
        "-smp 1,sockets=1,cores=4,maxcpus=4 -device kvm64-x86_64-cpu,id=cpu2,socket-id=0,core-id=1,thread-id=0 "
        "-m size=1024,slots=255,maxmem=4194304M -object memory-backend-ram,id=mem-dimm0,size=512M "
        "-device pc-dimm,id=dimm0,memdev=mem-dimm0,node=0",
        "/usr/libexec/qemu-kvm -name guest=ns_vm,debug-threads=on -machine pc-q35,accel=kvm "
        "-smbios type=1,manufacturer=KubeVirt,product=None,uuid=9b793bd8-30b0-400d-8196-6264858d3300 -incoming defer",
        "/snap/lxd/current/bin/qemu-system-x86_64 -S -name v1 -uuid 83a8be7b-f64f-4537-9a3f-8d1af7edaf1c "
        "-readconfig /var/snap/lxd/common/lxd/logs/v1/qemu.conf",
        "qemu-system-x86_64 -enable-kvm -name guest=a,,b -smp cpus=2,maxcpus=8 -m 4G -mem-prealloc "
        "-mem-path /dev/hugepages",
    ],
)
def test_what_a_virtual_machine_is_survives_the_white_list(line: str) -> None:
    words = line.split()
    kept = capture_options.kept(words)
    assert qemu.parse(kept) == qemu.parse(words)
    assert kept == [*words[:-1], "…"] if words[-2] == "-incoming" else kept == words


def test_configuration_file_keeps_memory_and_cpus_only() -> None:
    text = f'''
# a comment
[machine]
type = "q35"
graphics = "{SECRET}"
[memory]
size = "10G"
[smp-opts]
cpus = "4"
x = "{SECRET}"
[object "sec0"]
qom-type = "secret"
data = "{SECRET}"
[object "mem0"]
qom-type = "memory-backend-memfd"
size = "10G"
[device "nic"]
driver = "virtio-net-pci"
mac = "{SECRET}"
[{SECRET}]
password = "{SECRET}"
'''
    assert capture_options.kept_configuration(text).splitlines() == [
        "[machine]", 'type = "q35"', "[memory]", 'size = "10G"', "[smp-opts]", 'cpus = "4"',
        '[object "mem0"]', 'qom-type = "memory-backend-memfd"', 'size = "10G"',
    ]  # fmt: skip
    assert capture_options.configuration_file(["qemu", "-readconfig", "/etc/x"]) == "/etc/x"
    assert capture_options.configuration_file(["qemu", "-readconfig", "/dev/fd/3"]) == ""


options = st.sampled_from(["-drive", "-object", "-device", "-name", "-m", "-smbios", "-append", "-machine", "-S", "-x"])
keys = st.sampled_from(["password", "data", "key", "value", "serial", "secret", "path", "file"])


@given(st.lists(st.tuples(options, st.lists(keys, min_size=1, max_size=4), st.booleans()), max_size=6))
def test_no_value_of_another_key_is_kept(parts: list[tuple[str, list[str], bool]]) -> None:
    words = ["/usr/bin/qemu-system-x86_64"]
    for option, names, as_json in parts:
        values = {name: f"{SECRET} {name}" for name in names}
        listed = ",".join(f"{name}={value}" for name, value in values.items())
        document = {"driver": "pc-dimm", "qom-type": "memory-backend-ram"} | values
        words += [option, json.dumps(document) if as_json else listed]
    kept = capture_options.kept(words)
    assert len(kept) == len(words)
    assert SECRET not in "".join(kept)


def test_replay_help_names_the_capture(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        replay_command.main(["--help"])
    assert "shardpulse capture" in capsys.readouterr().out
