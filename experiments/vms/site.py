"""Site of the guests: a private libvirtd in mount and process namespaces.

All processes started here end with the namespace. Guests are run by TCG, have 16 MiB and a ROM that halts at once
(source 000: "very simple VMs, each with 16 MiB, no OS running").
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from acquisition.errors import UnavailableError
from experiments.processes.waiting import eventually

INSIDE = "SHARDPULSE_VMS_INSIDE"
_NAMESPACE = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "--propagation", "private")
_INIT = ("sh", "-c", '"$@" & wait $!', "sh")  # adopts orphans of daemons, such as each qemu of libvirtd
#: Directories of libvirt and its clients: empty in the namespace.
_OWN = ("/run", "/var/lib/libvirt", "/var/log/libvirt", "/var/cache/libvirt", "/etc/libvirt")
_SOCKET = Path("/run/libvirt/libvirt-sock")
_PIDS = Path("/run/libvirt/qemu")
_PATIENCE = 60.0
_AT_ONCE = 4  #: guests that start at the same time
_ROM_BYTES = 1 << 16

_QEMU_CONF = """\
user = "root"
group = "root"
security_driver = "none"
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
remember_owner = 0
"""
_DOMAIN = """\
<domain type='qemu'><name>{name}</name><uuid>{uuid}</uuid><memory unit='MiB'>16</memory><vcpu>{vcpus}</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type><loader readonly='yes' type='rom'>{directory}/halt.rom</loader></os>
<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<disk type='file' device='disk'><driver name='qemu' type='raw'/><source file='{directory}/{name}.raw'/>
<target dev='vda' bus='virtio'/></disk></devices></domain>
"""


def enter(command: Sequence[str]) -> int:
    """Run a command of this interpreter in its own namespace; its exit code."""
    environment = {**os.environ, INSIDE: "1"}
    child = subprocess.Popen([*_NAMESPACE, *_INIT, sys.executable, "-m", *command], env=environment)
    try:
        return child.wait()
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()


def uuid_of(name: str) -> str:
    """The uuid of a guest, the same in every run."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


class Site:
    """The libvirtd of this namespace, and its guests by name."""

    def __init__(self, vcpus: int) -> None:
        self._vcpus = vcpus
        self.names: list[str] = []
        for place in _OWN:
            os.makedirs(place, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", place], check=True)
        self.directory = Path(tempfile.mkdtemp(dir="/run"))
        halt = bytearray(b"\xf4" * _ROM_BYTES)
        halt[-16:-12] = b"\xfa\xf4\xeb\xfd"  # start address of an x86: cli, hlt, repeated
        (self.directory / "halt.rom").write_bytes(halt)
        Path("/etc/libvirt/qemu.conf").write_text(_QEMU_CONF)
        limits = 'max_clients = 500\nmax_workers = 20\nauth_unix_rw = "none"\nauth_unix_ro = "none"\n'
        Path("/etc/libvirt/libvirtd.conf").write_text(limits)
        log = (self.directory / "libvirtd.log").open("wb")
        self.daemon = subprocess.Popen(["libvirtd"], stdout=log, stderr=log)
        deadline = time.monotonic() + _PATIENCE
        while not _SOCKET.exists() or self._virsh("list", check=False).returncode:
            if self.daemon.poll() is not None or time.monotonic() > deadline:
                said = (self.directory / "libvirtd.log").read_text()[-300:]
                raise UnavailableError(f"libvirtd does not answer: {said}")
            time.sleep(0.1)

    def _virsh(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            ["virsh", "-q", "-c", "qemu:///system", *words], capture_output=True, text=True, check=False, timeout=120
        )
        if check and done.returncode:
            raise UnavailableError(f"virsh {words[0]}: {done.stderr.strip()}")
        return done

    def start(self, names: Iterable[str]) -> None:
        """Start these guests, a few at a time. Raises UnavailableError."""
        wanted = list(names)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(self._start, wanted))
        self.names += wanted

    def _start(self, name: str) -> None:
        with (self.directory / f"{name}.raw").open("wb") as disk:
            disk.truncate(1 << 20)
        document = self.directory / f"{name}.xml"
        document.write_text(
            _DOMAIN.format(name=name, uuid=uuid_of(name), vcpus=self._vcpus, directory=self.directory)
        )  # fmt: skip
        self._virsh("create", str(document))

    def kill(self, names: Sequence[str]) -> None:
        """End the processes of these guests, and wait until libvirt has noticed."""
        for name in names:
            os.kill(self.pid(name), signal.SIGKILL)

        def noticed() -> bool:
            return not set(names) & set(self._virsh("list", "--name").stdout.split())

        eventually(noticed, _PATIENCE, "libvirtd does not notice that its guests have ended", error=UnavailableError)
        self.names = [name for name in self.names if name not in names]

    def pid(self, name: str) -> int:
        """Process id of a guest."""
        return int((_PIDS / f"{name}.pid").read_text())

    def pids(self) -> list[int]:
        """Process ids of all guests."""
        return [self.pid(name) for name in self.names]
