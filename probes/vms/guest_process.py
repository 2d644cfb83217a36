"""Guest process: detection of qemu, current vCPUs and tap interfaces."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterator
from typing import NamedTuple

from acquisition.model.metric import INFINITY
from probes.sampling.procfs import read_once, whole
from probes.vms.qemu import Guest, is_qemu, parse

_SHORT_ARGUMENTS, _MOST_ARGUMENTS = 1 << 16, 1 << 21  #: bytes of a command line; that of hundreds of disks is long
_MOST_CONFIGURATION = 1 << 20  #: bytes of a configuration file
_SHORT_FILE = 1024  #: bytes of comm or stat
_VCPU_THREAD = re.compile(rb"CPU \d+/")  #: with -name debug-threads=on, from QEMU 11 on always
_VCPU_FILE = re.compile(r"anon_inode:\[?kvm-vcpu(?::\d+)?\]?", re.ASCII)  #: virt/kvm/kvm_main.c
_MACVTAP = re.compile(r"/dev/tap\d+(?: \(deleted\))?", re.ASCII)
#: Between two listings of the threads of a guest: a tick of a second may be a little early. The longest is for a guest
#: that never starts some of its vCPUs.
_AGAIN_SECONDS, _MOST_SECONDS = 0.9, 60.0
_WITH_THREADS = 3  #: links of a directory with one inside; fewer if the file system does not count them
_GUEST_TIME = 40  #: field of /proc/PID/task/TID/stat after the name: ticks spent running a guest


class Found(NamedTuple):
    """A process as seen by discovery. ``start`` is its start time in clock ticks after the boot."""

    pid: int
    start: int
    command: str
    uid: int
    kernel_thread: bool
    guest: Guest | None
    selected: bool


def executable(base: str) -> str | None:
    """Path of the program of the process at ``base`` (/proc/PID), None if it may not be read."""
    try:
        return os.readlink(f"{base}/exe")
    except OSError:
        return None


def command_line(base: str) -> list[str]:
    """Arguments of the process at ``base``; empty if it has none or may not be read."""
    try:
        text = read_once(f"{base}/cmdline", _SHORT_ARGUMENTS)
        if len(text) >= _SHORT_ARGUMENTS:
            text = read_once(f"{base}/cmdline", _MOST_ARGUMENTS)
    except OSError:
        return []
    return text.rstrip(b"\0").decode("utf-8", "replace").split("\0") if text else []


def guest_of(base: str, program: str | None) -> Guest | None:
    """Guest run by the process at ``base``, None if it runs none; ``program`` is its executable.

    Nothing more is read if the executable is not qemu."""
    if program is not None and not is_qemu(program):
        return None
    return parse(command_line(base), program or "", lambda path: configuration(base, path))


def configuration(base: str, path: str) -> str | None:
    """Text of a qemu's configuration file, as seen by the process at ``base`` or by this host; None if it
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


class Vcpus(NamedTuple):
    """vCPUs of a guest: their number (None: unknown), the ``threads`` that run them (empty: unknown), and whether
    more may start without a change of the number of threads."""

    number: int | None
    threads: tuple[int, ...]
    complete: bool


class _Looked(NamedTuple):
    """Threads found at ``at``, with ``links`` of the directory of threads, and the time in seconds to look again
    even if their number has not changed."""

    vcpus: Vcpus
    links: int
    at: float
    seconds: float


class VcpuFinder:
    """Finds the vCPUs of guests: their threads are listed when their number has changed, at most once a second."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._looked: dict[Process, _Looked] = {}

    def find(self, process: Process, guest: Guest, monotonic: float, again: bool = False) -> Vcpus:
        """Current vCPU threads of a guest. ``again``: look even if the number of threads has not changed."""
        known = self._looked.get(process)
        if known is not None and known.vcpus.complete and known.vcpus.number == guest.most_vcpus and not again:
            return known.vcpus  # none can be plugged in
        base = f"{self._proc}/{process[0]}"
        links = _links(f"{base}/task")
        if known is not None and not again:
            seconds = known.seconds if links == known.links else _AGAIN_SECONDS
            if monotonic - known.at < seconds:
                return known.vcpus
        found, seconds = vcpus_of(base, guest), _AGAIN_SECONDS  # a new thread may get its name later
        if known is not None and (known.vcpus, known.links) == (found, links):
            seconds = INFINITY if found.complete else min(2 * known.seconds, _MOST_SECONDS)
        self._looked[process] = _Looked(found, links if links >= _WITH_THREADS else -1, monotonic, seconds)
        return found

    def keep(self, processes: Container[Process]) -> None:
        """Forget all other guests."""
        self._looked = {process: known for process, known in self._looked.items() if process in processes}


def vcpus_of(base: str, guest: Guest) -> Vcpus:
    """vCPUs of the guest run by the process at ``base``: the threads named ``CPU 0/KVM`` and so on. If
    threads have no names, the number open in KVM or in the options, and the threads that have run a guest."""
    threads = tuple(sorted(int(name) for name in _names(f"{base}/task") if name.isdecimal()))
    named = tuple(thread for thread in threads if _VCPU_THREAD.match(_text_of(f"{base}/task/{thread}/comm")))
    if named:
        return Vcpus(len(named), named, len(named) >= (guest.vcpus or 0))
    fixed = guest.vcpus if guest.vcpus == guest.most_vcpus else None  # the options leave no room for more
    count = sum(_VCPU_FILE.fullmatch(target) is not None for _, target in _open_files(base)) or fixed
    ran = tuple(thread for thread in threads if _has_run_a_guest(_text_of(f"{base}/task/{thread}/stat")))
    return Vcpus(count, ran, len(ran) == count)


def _has_run_a_guest(stat: bytes) -> bool:
    fields = stat[stat.rfind(b")") + 2 :].split()
    return len(fields) > _GUEST_TIME and (whole(fields[_GUEST_TIME]) or 0) > 0


def _text_of(path: str) -> bytes:
    try:
        return read_once(path, _SHORT_FILE)
    except OSError:
        return b""


def _links(path: str) -> int:
    """Link count of the directory of threads: two more than threads (fs/proc/base.c, proc_task_getattr)."""
    try:
        return os.stat(path).st_nlink
    except OSError:
        return 0


def taps(proc: str, pid: int) -> list[str]:
    """Tap interfaces held open by a process, by the ``iff:`` lines of its /dev/net/tun descriptors.

    For a macvtap, whose descriptor does not name its interface, the device: ``/dev/tap7``. Raises OSError if
    the descriptors may not be read.
    """
    found = set()
    base = f"{proc}/{pid}"
    for number in os.listdir(f"{base}/fd"):
        try:
            target = os.readlink(f"{base}/fd/{number}")
            if _MACVTAP.fullmatch(target):
                found.add(target)
            lines = read_once(f"{base}/fdinfo/{number}").splitlines() if target.endswith("/net/tun") else []
        except (FileNotFoundError, ProcessLookupError):  # just closed
            continue
        for key, _, value in (line.partition(b":") for line in lines):
            if key == b"iff" and value.strip():
                found.add(os.fsdecode(value.strip()))
    return sorted(found)


def _open_files(base: str) -> Iterator[tuple[str, str]]:
    """Numbers of a process' open files with their links."""
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
