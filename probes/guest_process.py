"""What a process shows: whether it is a qemu that runs a guest, how many vCPUs that has now, its tap interfaces."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterator
from typing import NamedTuple

from probes.procfs import read_once
from probes.qemu import Guest, is_qemu, parse

_SHORT_ARGUMENTS, _MOST_ARGUMENTS = 1 << 16, 1 << 21  #: bytes of a command line; that of hundreds of disks is long
_MOST_CONFIGURATION = 1 << 20  #: bytes of a configuration file
_VCPU_THREAD = re.compile(rb"CPU \d+/")  #: with -name debug-threads=on, from QEMU 11 on always
_VCPU_FILE = re.compile(r"anon_inode:\[?kvm-vcpu(?::\d+)?\]?", re.ASCII)  #: virt/kvm/kvm_main.c
_AGAIN_SECONDS = 1.0
_WITH_THREADS = 3  #: links of a directory with one inside; fewer where the file system does not count them


def executable(base: str) -> str | None:
    """The path of the program that the process at ``base`` (/proc/PID) runs, None where it may not be read."""
    try:
        return os.readlink(f"{base}/exe")
    except OSError:
        return None


def command_line(base: str) -> list[str]:
    """The arguments of the process at ``base``; empty when it has none or may not be read."""
    try:
        text = read_once(f"{base}/cmdline", _SHORT_ARGUMENTS)
        if len(text) >= _SHORT_ARGUMENTS:
            text = read_once(f"{base}/cmdline", _MOST_ARGUMENTS)
    except OSError:
        return []
    return text.rstrip(b"\0").decode("utf-8", "replace").split("\0") if text else []


def guest_of(base: str, program: str | None) -> Guest | None:
    """The guest that the process at ``base`` runs, None when it runs none; ``program`` is its executable.

    Nothing more is read of one whose executable is no qemu."""
    if program is not None and not is_qemu(program):
        return None
    return parse(command_line(base), program or "", lambda path: configuration(base, path))


def configuration(base: str, path: str) -> str | None:
    """The text of a qemu's configuration file, as the process at ``base`` sees it or as this host does; None when it
    cannot be read. Only a file is read, never a device or a pipe, which could block."""
    if not path.startswith("/") or path.startswith(("/dev/", "/proc/")):
        return None
    host = os.path.dirname(os.path.dirname(os.path.abspath(base))).rstrip("/")
    return next(filter(None, (_text(f"{root}{path}") for root in (f"{base}/root", host))), None)


def _text(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError):
        return ""
    try:
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        return os.read(descriptor, _MOST_CONFIGURATION).decode("utf-8", "replace") if regular else ""
    except OSError:
        return ""
    finally:
        os.close(descriptor)


Process = tuple[int, int]  #: pid and start


class Counted(NamedTuple):
    """The vCPUs of a guest (None: unknown) and how many links its directory of threads had at ``at``, -1 where that
    must be looked at again."""

    vcpus: int | None
    links: int
    at: float


class Vcpus:
    """Counts the vCPUs of guests: their threads are listed when their number has changed, at most once a second."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._counted: dict[Process, Counted] = {}

    def count(self, process: Process, guest: Guest, monotonic: float, again: bool = False) -> int | None:
        """Those of a guest now; None when nothing says how many were plugged in or out since its start. ``again``:
        count them even if the number of threads is that of before."""
        known = self._counted.get(process)
        if known is not None and known.vcpus == guest.most_vcpus is not None and not again:
            return known.vcpus  # none can be plugged in
        base = f"{self._proc}/{process[0]}"
        links = _links(f"{base}/task")
        if known is None or again or (links != known.links and monotonic - known.at >= _AGAIN_SECONDS):
            running = _vcpu_threads(base) or _vcpu_files(base)
            settled = links >= _WITH_THREADS and not 0 < running < (guest.vcpus or 0)  # else some start yet, perhaps
            known = self._counted[process] = Counted(running or _fixed(guest), links if settled else -1, monotonic)
        return known.vcpus

    def keep(self, processes: Container[Process]) -> None:
        """Forget all other guests."""
        self._counted = {process: known for process, known in self._counted.items() if process in processes}


def _fixed(guest: Guest) -> int | None:
    """What the options say, where they leave no room for more."""
    return guest.vcpus if guest.vcpus == guest.most_vcpus else None


def _links(path: str) -> int:
    """Of the directory of threads: two more than there are threads (fs/proc/base.c, proc_task_getattr)."""
    try:
        return os.stat(path).st_nlink
    except OSError:
        return 0


def _vcpu_threads(base: str) -> int:
    """The threads named ``CPU 0/KVM`` and so on; 0 when threads have no names."""
    count = 0
    for thread in _names(f"{base}/task"):
        try:
            count += _VCPU_THREAD.match(read_once(f"{base}/task/{thread}/comm", 32)) is not None
        except OSError:
            continue
    return count


def _vcpu_files(base: str) -> int:
    """The open vCPUs of KVM; 0 when there are none or they may not be looked at."""
    return sum(_VCPU_FILE.fullmatch(target) is not None for _, target in _open_files(base))


def taps(proc: str, pid: int) -> list[str]:
    """The tap interfaces that a process holds open, by the ``iff:`` lines of its /dev/net/tun descriptors.

    Empty when there are none or they may not be looked at.
    """
    found = set()
    base = f"{proc}/{pid}"
    for number, target in _open_files(base):
        if not target.endswith("/net/tun"):
            continue
        try:
            lines = read_once(f"{base}/fdinfo/{number}").splitlines()
        except OSError:
            continue
        for key, _, value in (line.partition(b":") for line in lines):
            if key == b"iff" and value.strip():
                found.add(value.strip().decode("ascii", "replace"))
    return sorted(found)


def _open_files(base: str) -> Iterator[tuple[str, str]]:
    """The numbers of a process' open files and what they are."""
    for number in _names(f"{base}/fd"):
        try:
            yield number, os.readlink(f"{base}/fd/{number}")
        except OSError:
            continue


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except OSError:
        return []
