"""References for probe cost: a C loop over the same files, a busy host."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SOURCE, _GUEST = (Path(__file__).with_name(f"{name}.c") for name in ("empty_loop", "guest"))
HOST_FILES = ("stat", "meminfo", "vmstat", "net/dev", "pressure/cpu", "pressure/memory", "pressure/io")
#: Per process: the files of pidstat's figures, and those still needed if taskstats has the switches.
PROCESS_FILES = {"empty_loop": ("stat", "status", "io", "schedstat"), "empty_loop_kept": ("stat", "io", "schedstat")}
_SENT = re.compile(r"\b(bytes_sent|segs_out|data_segs_out):(\d+)")

_CROWD = """
import os, select, signal, sys, time
idle, per_second, vms = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(idle):
    if not os.fork():
        open("/proc/self/comm", "w").write("crowd")
        os.read(0, 1)  # until the standard input is closed
        os._exit(0)
for number in range(int(vms[0]) if vms else 0):
    name = f"guest=emulated{number}"
    uuid = f"00000000-0000-4000-8000-{number:012x}"
    if not os.fork():
        words = ["-c", "read line", "-name", name, "-uuid", uuid, "-smp", "2", "-m", "1024"]
        os.execv(vms[1], [vms[1], *words])
print("ready", flush=True)
at, ended = time.monotonic(), []
while per_second and not ended:
    at += 1 / per_second
    if not os.fork():
        os._exit(0)
    ended = select.select([0], [], [], max(0.0, at - time.monotonic()))[0]
os.read(0, 1)
try:
    os.wait()  # as SIGCHLD is ignored: until all have ended, so that none is left to somebody who does not wait for it
except ChildProcessError:
    pass
"""


def compiler() -> str | None:
    """The C compiler, or None."""
    return shutil.which("cc")


def build(directory: Path, source: Path = _SOURCE, name: str = "empty_loop") -> Path:
    """The empty loop, or another program, compiled. Raises subprocess.CalledProcessError."""
    made = directory / name
    subprocess.run(["cc", "-O2", "-pthread", "-o", str(made), str(source)], check=True)
    return made


def files(kind: str, pids: list[int]) -> list[str]:
    """The files read by the loop ``kind``."""
    return [f"/proc/{name}" for name in HOST_FILES] + [
        f"/proc/{pid}/{name}" for pid in pids for name in PROCESS_FILES[kind]
    ]


@contextmanager
def empty_loop(program: Path, paths: list[str], interval: float) -> Iterator[int]:
    """The running loop over these files; its pid."""
    with subprocess.Popen(
        [str(program), str(interval)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as loop:
        assert loop.stdin is not None
        assert loop.stdout is not None
        try:
            loop.stdin.write("".join(f"{path}\n" for path in paths))
            loop.stdin.close()
            loop.stdout.readline()
            yield loop.pid
        finally:
            loop.kill()


@contextmanager
def crowd(idle: int, forks: float, vms: int, directory: Path) -> Iterator[None]:
    """Unwatched processes: ``idle`` that sleep, ``forks`` new ones each second, ``vms`` that look like qemu, with the
    threads of two vCPUs if there is a C compiler.

    They end with this block, which closes their standard input."""
    qemu = directory / "qemu-system-x86_64"  # the executable must have the name
    if vms and compiler():
        build(directory, _GUEST, qemu.name)
    elif not qemu.exists():
        shutil.copy("/bin/sh", qemu)
    command = [sys.executable, "-I", "-S", "-c", _CROWD, str(idle), str(forks), str(vms), str(qemu)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            parent.stdout.readline()
            yield
        finally:
            assert parent.stdin is not None
            parent.stdin.close()
            parent.wait()


def sent(pid: int) -> dict[str, int]:
    """Traffic sent so far by the TCP connections of a process (``ss``, tcp(7)): bytes, and packets with and without
    data; empty if ss is missing or does not report it."""
    if shutil.which("ss") is None:
        return {}
    done = subprocess.run(["ss", "-tinpHO"], capture_output=True, text=True, check=False)
    found: dict[str, int] = {}
    for line in done.stdout.splitlines():
        if f"pid={pid}," in line:
            for name, number in _SENT.findall(line):
                found[name] = found.get(name, 0) + int(number)
    return found
