"""Capture of this machine's /proc and /sys at one tick, without secrets.

A file is captured only if a table below names it: those read by the sources of ``procfs``, and no
others. Command lines are captured only of qemu, through ``capture_options``; the environment and the
arguments of other processes never are.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import suppress
from glob import glob
from hashlib import blake2s
from typing import NamedTuple

from probes.captures import capture_options
from probes.captures.replay_proc import Content
from probes.figures.agreed import HOST_GROUPS
from probes.figures.process_row import FILES
from probes.processes.discovery import parse_stat
from probes.sampling.procfs import read_once
from probes.vms.guest_traffic import namespace_of
from probes.vms.guest_vcpus import CPU_STAT, levels, place_of

#: Files of the host, relative to the root, as patterns of glob.
HOST_FILES = (
    *(f"proc/{name}" for files in HOST_GROUPS.values() for name in files),
    "proc/sys/kernel/random/boot_id",
    "proc/sys/kernel/task_delayacct",
    "sys/class/net/*/operstate",
    "sys/class/net/*/speed",
    "sys/kernel/mm/hugepages/*/*_hugepages",
)
#: A directory whose existence sources check without opening it, and a link to another network device.
HOST_DIRECTORY = "sys/class/net/*/device"
HOST_LINK = "sys/class/net/*/master"
#: Files of every process below /proc/PID, and of a virtual machine.
PROCESS_FILES = (*FILES, "cgroup")
VM_FILES = ("task/*/comm", "task/*/stat", "task/*/schedstat", "task/*/cgroup")
#: Descriptors of a virtual machine to capture, by the text of their links.
DESCRIPTOR = re.compile(r".*/net/tun|/dev/tap\d+|anon_inode:\[?kvm-vcpu.*")
_GENERIC = re.compile(r"qemu-system-[\w-]*|qemu-kvm|kvm|CPU \d+/\w+")
_MOST_BYTES = 1 << 20  #: per file
_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h

Rename = Callable[[str], str]


class Captured(NamedTuple):
    """Files found at a tick: path below the root -> content. ``refused``: files not readable by this user."""

    contents: dict[str, Content]
    processes: int
    vms: int
    refused: int


def hasher(key: bytes) -> Rename:
    """Function that replaces names by hashes that cannot be guessed without ``key``: a name has the same hash
    throughout a capture. Names that every qemu uses for itself and its threads stay."""

    def rename(name: str) -> str:
        if not name or _GENERIC.fullmatch(name):
            return name
        return f"h{blake2s(os.fsencode(name), key=key, digest_size=5).hexdigest()}"

    return rename


class Tick:
    """Captures the files below ``root`` (normally ``/``); ``rename`` replaces names of processes and VMs."""

    def __init__(self, rename: Rename | None = None, root: str = "/") -> None:
        self._root = root
        self._rename = rename
        self._contents: dict[str, Content] = {}
        self._refused = 0

    def read(self) -> Captured:
        """All files, once. A process that ends meanwhile is left out."""
        for pattern in HOST_FILES:
            for path in glob(pattern, root_dir=self._root):
                self._file(path)
        for path in glob(HOST_DIRECTORY, root_dir=self._root):
            self._contents[path] = None
        for path in glob(HOST_LINK, root_dir=self._root):
            self._contents[path] = f"../{os.path.basename(os.path.realpath(os.path.join(self._root, path)))}"
        pids = sorted(int(name) for name in os.listdir(os.path.join(self._root, "proc")) if name.isdecimal())
        found = [self._process(f"proc/{pid}") for pid in pids]
        return Captured(self._contents, len(found) - found.count(None), found.count(True), self._refused)

    def _process(self, base: str) -> bool | None:
        """Capture a process; returns whether it is a virtual machine, None for a kernel thread or one that is gone."""
        place = os.path.join(self._root, base)
        try:
            _, fields = parse_stat(read_once(f"{place}/stat"))
            if int(fields[6]) & _KERNEL_THREAD:
                return None
        except (OSError, ValueError, IndexError):
            return None
        for name in PROCESS_FILES:
            self._file(f"{base}/{name}")
        program, arguments = _link(f"{place}/exe"), self._text(f"{base}/cmdline").rstrip("\0").split("\0")
        is_vm = capture_options.is_qemu(program, arguments)
        if program and (is_vm or self._rename is None):
            self._contents[f"{base}/exe"] = program
        if is_vm:
            words = capture_options.kept(arguments, self._rename)
            self._contents[f"{base}/cmdline"] = "".join(f"{word}\0" for word in words).encode(errors="replace")
            self._of_a_vm(base, capture_options.configuration_file(arguments))
        return is_vm

    def _of_a_vm(self, base: str, configuration: str) -> None:
        text = self._text(f"{base}/root{configuration}") if configuration else ""
        if text:
            settings = capture_options.kept_configuration(text, self._rename)
            shown = capture_options.shown_path(configuration, self._rename)
            self._contents[f"{base}/root{shown}"] = settings.encode(errors="replace")
        for pattern in VM_FILES:
            for path in glob(f"{base}/{pattern}", root_dir=self._root):
                self._file(path)
        for path in glob(f"{base}/task/*/cgroup", root_dir=self._root):
            self._limits(os.path.join(self._root, path))
        proc, _, pid = os.path.join(self._root, base).rpartition("/")
        if namespace_of(proc, int(pid)):
            self._file(f"{base}/net/dev")
        for path in glob(f"{base}/fd/*", root_dir=self._root):
            target = _link(os.path.join(self._root, path))
            if DESCRIPTOR.fullmatch(target):
                self._contents[path] = target
                self._file(path.replace("/fd/", "/fdinfo/"))

    def _limits(self, cgroup: str) -> None:
        """Capture the limits of the cgroup named in a file, and of those above it."""
        with suppress(OSError):
            place = place_of(os.path.join(self._root, "sys"), read_once(cgroup, _MOST_BYTES))
            root, path = place or ("", "")
            for level in levels(path) if root else ():
                shown = os.fsdecode(_NAMED["cgroup"](os.fsencode(level), self._rename)) if self._rename else level
                text = read_once(f"{root}{level}/{CPU_STAT}", _MOST_BYTES)
                self._contents[f"{os.path.relpath(root, self._root)}{shown}/{CPU_STAT}"] = text

    def _text(self, path: str) -> str:
        """Text of a file not captured as it is; "" if it cannot be read."""
        place = os.path.join(self._root, path)
        with suppress(OSError):
            if os.path.isfile(place):
                return read_once(place, _MOST_BYTES).decode("utf-8", "replace")
        return ""

    def _file(self, path: str) -> None:
        try:
            text = read_once(os.path.join(self._root, path), _MOST_BYTES)
        except PermissionError:
            self._refused += 1
        except OSError:
            return  # a link that is down has no speed; a process has ended
        else:
            rewrite = _NAMED.get(os.path.basename(path))
            self._contents[path] = rewrite(text, self._rename) if rewrite and self._rename else text


def _link(path: str) -> str:
    """Target of a symbolic link; "" if it cannot be read."""
    with suppress(OSError):
        return os.readlink(path)
    return ""


def _renamed(pattern: bytes) -> Callable[[bytes, Rename], bytes]:
    """Function that replaces all matches of the pattern's group in a text."""
    compiled = re.compile(pattern, re.DOTALL | re.MULTILINE)

    def rewrite(text: bytes, rename: Rename) -> bytes:
        def replaced(match: re.Match[bytes]) -> bytes:
            whole, start = match[0], match.start()
            name = rename(os.fsdecode(match[1])).encode(errors="replace")
            return whole[: match.start(1) - start] + name + whole[match.end(1) - start :]

        return compiled.sub(replaced, text)

    return rewrite


#: Files that contain names, and their places.
_NAMED = {
    "stat": _renamed(rb"\A\d+ \((.*)\)"),
    "status": _renamed(rb"\AName:\t([^\n]*)"),
    "cgroup": _renamed(rb"(?<=/)([^/\n]+?)(?=(?:\.slice|\.scope|\.service)?(?:/|$))"),
    "comm": _renamed(rb"\A([^\n]*)"),
}
