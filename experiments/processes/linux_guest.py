"""Linux guest: one command on the machine's newest kernel, with a virtio disk.

Nothing is installed for it. Its initramfs has busybox, the command with its libraries, and the modules of virtio. It
has one CPU and 512 MiB, and runs under KVM if the CPU offers that, else under TCG (qemu(1)).
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from acquisition.errors import UnavailableError
from acquisition.lifeline import tied
from experiments.processes import needs, temporary

DISK = "/dev/vda"  #: as the guest sees it
_QEMU = "qemu-system-x86_64"
#: Each after its dependencies; some are built into some kernels.
_MODULES = ("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk")
_DONE = "exit status 0"
_INIT = """\
#!/bin/busybox sh
busybox mount -t proc none /proc
busybox mount -t sysfs none /sys
busybox mount -t devtmpfs none /dev
for module in {modules}; do busybox insmod $module; done
{command} >/dev/ttyS1
echo exit status $? >/dev/ttyS0
busybox poweroff -f
"""


def lacking() -> str:
    """Requirements of a guest lacking on this machine, in one line with the packages; "" if it has all."""
    return needs.lacking(needs.tool(_QEMU, "qemu-system-x86"), needs.tool("busybox", "busybox-static"), _no_kernel)


def _no_kernel() -> str:
    return "" if _kernels() else "there is no readable kernel in /boot: apt install linux-image-cloud-amd64"


def _kernels() -> list[Path]:
    """Kernels readable by this user, the newest last."""
    found = [path for path in Path("/boot").glob("vmlinuz-*") if os.access(path, os.R_OK)]
    return sorted(found, key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)])


def accelerator() -> str:
    """``kvm`` if the CPU offers it and this user may use it, else ``tcg``."""
    offered = re.search(r"\b(vmx|svm)\b", Path("/proc/cpuinfo").read_text())
    return "kvm" if offered and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg"


def run(command: Sequence[str], disk: Path, seconds: float) -> str:
    """Standard output of a command in a guest with the file ``disk`` as its disk, bypassing this machine's page cache.
    Raises UnavailableError if the command fails, or does not end within ``seconds``."""
    kernel = _kernels()[-1]
    with temporary.made() as place:
        initrd, console, output = (place / each for each in ("initrd", "console", "output"))
        initrd.write_bytes(_archive(_files(command, kernel.name.removeprefix("vmlinuz-"))))
        words = [
            needs.found(_QEMU) or _QEMU, "-accel", accelerator(), "-cpu", "max", "-m", "512", "-nodefaults",
            "-display", "none", "-no-reboot", "-kernel", str(kernel), "-initrd", str(initrd),
            "-append", "console=ttyS0 quiet panic=-1", "-serial", f"file:{console}", "-serial", f"file:{output}",
            "-drive", f"file={str(disk).replace(',', ',,')},format=raw,if=virtio,cache=none,aio=native",
        ]  # fmt: skip
        try:
            done = subprocess.run(
                tied(words), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise UnavailableError(f"the guest did not end within {seconds:.0f} s: {_end_of(console)}") from None
        if _DONE not in _end_of(console):
            raise UnavailableError(f"the guest failed: {done.stderr.strip()[-300:]} {_end_of(console)}")
        return output.read_text()


def _end_of(console: Path) -> str:
    return " ".join(console.read_text(errors="replace").split())[-500:] if console.exists() else "qemu did not start"


def _files(command: Sequence[str], version: str) -> dict[str, bytes]:
    """The files of the initramfs by path."""
    busybox, program = (needs.found(name) or name for name in ("busybox", command[0]))
    modules = [found for name in _MODULES for found in Path("/lib/modules", version).rglob(f"{name}.ko*")]
    paths = [program, *_libraries(program), *_libraries(busybox), *map(str, modules)]
    init = _INIT.format(modules=" ".join(map(str, modules)), command=shlex.join([program, *command[1:]]))
    files = {path: Path(path).read_bytes() for path in paths}
    return {**files, "/bin/busybox": Path(busybox).read_bytes(), "/init": init.encode()}


def _libraries(program: str) -> list[str]:
    """Shared libraries of a program and its loader; none of a static one."""
    done = subprocess.run(["ldd", program], capture_output=True, text=True, check=False)
    return re.findall(r"(/\S+) \(0x", done.stdout)


def _archive(files: Mapping[str, bytes]) -> bytes:
    """A cpio archive of executable files and their directories, in the kernel's format (cpio(5), newc)."""
    directories = {"/proc", "/sys", "/dev", *(str(parent) for path in files for parent in Path(path).parents)} - {"/"}
    entries = [_entry(path, 0o40755, b"") for path in sorted(directories)]
    entries += [_entry(path, 0o100755, content) for path, content in files.items()]
    return b"".join([*entries, _entry("/TRAILER!!!", 0, b"")])


def _entry(path: str, mode: int, content: bytes) -> bytes:
    name = path[1:].encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return b"".join((part + bytes(-len(part) % 4)) for part in (head, content))
