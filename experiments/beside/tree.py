"""Tree of files like /proc for one emulated host: counters, processes, VMs.

Files are overwritten in place, so that open descriptors read the new content, as in /proc. Only files read by the
exporters and the probe exist. A host has two CPUs, and an uptime of ten days when created. Waiting work follows from
the load (``experiments.simulation.contention``), and shows in run queue and CPU pressure. The delay of vCPUs is
missing.
"""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.simulation.contention import uneven_wait

CPUS, HERTZ = 2, 100
VCPUS = 2  #: of each VM
OTHERS = {"systemd": 0.0, "sshd": 0.01, "postgres": 0.05, "nginx": 0.04}  #: cores used by processes other than VMs
_UP_SECONDS = 864_000.0
_MEMORY_KB, _VM_KB = 16_777_216, 2_097_152
_NOISE = 0.02  #: deviation of the load of a tenth of a second, as a fraction of the host
_ENDED = "0 (ended) X" + " 0" * 18 + " 18446744073709551615" + " 0" * 30 + "\n"
_FIRST_VM = 2000


class Vm(NamedTuple):
    """A process of qemu: ``name`` moves with the VM from host to host, the counters do not."""

    name: str
    pid: int
    started: int  #: clock ticks after the boot
    incoming: bool


def words_of(name: str, incoming: bool) -> list[str]:
    """Command line of the qemu of a VM."""
    number = int(name.rpartition("-")[2])
    uuid = f"00000000-0000-4000-8000-{number:012x}"
    words = ["/usr/bin/qemu-system-x86_64", "-name", f"guest={name}", "-uuid", uuid, "-accel", "kvm"]
    return [*words, "-smp", str(VCPUS), "-m", "2048", *(["-incoming", "defer"] if incoming else [])]


class HostTree:
    """The tree below ``root``; ``advance`` lets time pass. ``ahead``: error of the host's clock in seconds."""

    def __init__(self, root: Path, seed: int) -> None:
        self.ahead = 0.0
        self._proc = root / "proc"
        self._chance = random.Random(seed)
        self._up = _UP_SECONDS
        self._user = [4e6] * CPUS  # clock ticks
        self._idle = [7e7] * CPUS
        self._pressure = 0.0  # seconds
        self._blind = False
        self._vms: dict[str, Vm] = {}
        self._used: dict[int, float] = {}  # clock ticks by pid
        self._files: dict[Path, int] = {}
        self._next = _FIRST_VM
        for directory in ("net", "sys/kernel/random", "pressure"):
            (self._proc / directory).mkdir(parents=True)
        boot = f"{self._chance.getrandbits(32):08x}-0000-4000-8000-000000000000\n"
        (self._proc / "sys/kernel/random/boot_id").write_text(boot)
        net = root / "sys/class/net/eth0"
        net.mkdir(parents=True)
        (root / "sys/devices/system/cpu").mkdir(parents=True)
        (net / "operstate").write_text("up\n")
        (net / "speed").write_text("10000\n")
        for number, name in enumerate(OTHERS):
            self._start(1 if number == 0 else 100 + number, name, [f"/usr/bin/{name}"])

    def begin(self, name: str, incoming: bool = False) -> None:
        """Start a VM: a new process with its counters at 0."""
        pid, self._next = self._next, self._next + 7
        self._vms[name] = Vm(name, pid, round(self._up * HERTZ), incoming)
        self._start(pid, "qemu-system-x86", words_of(name, incoming), self._vms[name].started)

    def end(self, name: str) -> None:
        """End the process of a VM; open descriptors read that it is gone."""
        base = self._proc / str(self._vms.pop(name).pid)
        for path in [path for path in self._files if base in path.parents]:
            self._write(path, _ENDED if path.name == "stat" else "")
            os.close(self._files.pop(path))
        for path in sorted(base.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
        base.rmdir()

    def blind(self, blind: bool) -> None:
        """Hide all CPU figures, with an empty /proc/stat; or show them again."""
        self._blind = blind

    def jump(self, seconds: float) -> None:
        """Let the counters of idle time jump forward."""
        self._idle = [ticks + seconds * HERTZ for ticks in self._idle]

    def advance(self, seconds: float, cores: dict[str, float], now: float) -> None:
        """Let ``seconds`` pass up to ``now`` (seconds since 1970), with this use of cores by VMs; write all files."""
        self._up += seconds
        running = {vm.pid: cores.get(name, 0.0) for name, vm in self._vms.items()}
        others = {1 if number == 0 else 100 + number: used for number, used in enumerate(OTHERS.values())}
        wanted = sum(running.values()) + sum(others.values()) + CPUS * self._chance.gauss(0.0, _NOISE)
        busy = min(max(wanted, 0.0), float(CPUS))
        for cpu in range(CPUS):
            self._user[cpu] += busy / CPUS * seconds * HERTZ
            self._idle[cpu] += (1.0 - busy / CPUS) * seconds * HERTZ
        for pid, used in {**running, **others}.items():
            self._used[pid] = self._used.get(pid, 0.0) + used * seconds * HERTZ
        waiting = float(uneven_wait(np.array([busy / CPUS]), CPUS)[0]) * busy
        self._pressure += (1.0 - math.exp(-waiting)) * seconds
        self._write_host(busy, math.floor(1.0 + busy + waiting + self._chance.random()), now)
        for number, name in enumerate(OTHERS):
            self._write_process(1 if number == 0 else 100 + number, name, 100, 1)
        for vm in self._vms.values():
            self._write_process(vm.pid, "qemu-system-x86", vm.started, 2 + VCPUS)

    def close(self) -> None:
        """Close all files."""
        while self._files:
            os.close(self._files.popitem()[1])

    def _write_host(self, busy: float, runnable: int, now: float) -> None:
        lines = [_cpu("", sum(self._user), sum(self._idle))]  # user time includes guest time
        lines += [_cpu(str(cpu), self._user[cpu], self._idle[cpu]) for cpu in range(CPUS)]
        counted = int(self._up * 1000)
        boot = int(now + self.ahead - self._up)
        stat = f"intr {counted} 0\nctxt {2 * counted}\nbtime {boot}\nprocesses {self._next}\n"
        stat += f"procs_running {runnable}\nprocs_blocked 0\nsoftirq {counted} 0 0 0 0 0 0 0 0 0 0\n"
        self._write(self._proc / "stat", "" if self._blind else "".join(lines) + stat)
        used = 2_000_000 + _VM_KB * len(self._vms)
        self._write(self._proc / "meminfo", _meminfo(used))
        self._write(self._proc / "vmstat", f"pswpin 0\npswpout 0\npgpgin {counted}\npgpgout {counted}\noom_kill 0\n")
        self._write(self._proc / "loadavg", f"{busy:.2f} {busy:.2f} {busy:.2f} {runnable}/99 {self._next}\n")
        self._write(self._proc / "uptime", f"{self._up:.2f} {sum(self._idle) / HERTZ:.2f}\n")
        self._write(self._proc / "net/dev", _net(counted * 10))
        for name, seconds in (("cpu", self._pressure), ("memory", 0.0), ("io", 0.0)):
            averages = "avg10=0.00 avg60=0.00 avg300=0.00"  # not read by any part here
            some = f"some {averages} total={int(seconds * 1e6)}\n"
            self._write(self._proc / "pressure" / name, f"{some}full {averages} total=0\n")

    def _start(self, pid: int, name: str, words: list[str], started: int = 100) -> None:
        base = self._proc / str(pid)
        (base / "fd").mkdir(parents=True)
        (base / "comm").write_text(f"{name}\n")
        (base / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        (base / "cgroup").write_text("0::/machine.slice\n")
        (base / "limits").write_text(
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            "Max open files            1024                 4096                 files     \n"
        )
        (base / "exe").symlink_to(words[0])
        self._write_process(pid, name, started, 1)

    def _write_process(self, pid: int, name: str, started: int, threads: int) -> None:
        used = self._used.get(pid, 0.0)
        ticks, base = int(used), self._proc / str(pid)
        pages = _VM_KB // 4 if threads > 1 else 5000
        guest = ticks if threads > 1 else 0
        self._write(
            base / "stat",
            f"{pid} ({name}) S 1 {pid} {pid} 0 -1 4194304 {ticks} 0 0 0 {ticks} 0 0 0 20 0 {threads} 0 {started} "
            f"{pages * 8192} {pages} 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 {guest} 0"
            " 0 0 0 0 0 0 0 0\n",
        )
        self._write(base / "schedstat", f"{int(used * 10_000_000)} 0 {ticks}\n")
        self._write(base / "status", _status(pid, name, threads, pages, ticks))
        self._write(base / "io", _io(ticks * 4096))

    def _write(self, path: Path, text: str) -> None:
        if path not in self._files:
            self._files[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        data = text.encode()
        os.pwrite(self._files[path], data, 0)
        if os.fstat(self._files[path]).st_size > len(data):
            os.ftruncate(self._files[path], len(data))


def _cpu(name: str, user: float, idle: float) -> str:
    separator = "  " if not name else " "
    return f"cpu{name}{separator}{int(user)} 0 0 {int(idle)} 0 0 0 0 {int(user) // 2} 0\n"


def _meminfo(used: int) -> str:
    free = _MEMORY_KB - used
    lines = {
        "MemTotal": _MEMORY_KB, "MemFree": free, "MemAvailable": free, "Buffers": 0, "Cached": 0, "SwapCached": 0,
        "SwapTotal": 0, "SwapFree": 0, "SReclaimable": 0, "Hugetlb": 0,
    }  # fmt: skip
    return "".join(f"{name}:{kilobytes:>12} kB\n" for name, kilobytes in lines.items())


def _net(count: int) -> str:
    head = (
        "Inter-|   Receive                                                |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast"
        "|bytes    packets errs drop fifo colls carrier compressed\n"
    )
    packets = count // 100
    return f"{head}  eth0: {count} {packets} 0 0 0 0 0 0 {count} {packets} 0 0 0 0 0 0\n"


def _status(pid: int, name: str, threads: int, pages: int, switches: int) -> str:
    return (
        f"Name:\t{name}\nState:\tS (sleeping)\nTgid:\t{pid}\nPid:\t{pid}\nPPid:\t1\n"
        "Uid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n"
        f"VmPeak:\t{pages * 8} kB\nVmSize:\t{pages * 8} kB\nVmRSS:\t{pages * 4} kB\nVmSwap:\t0 kB\n"
        f"Threads:\t{threads}\n"
        f"voluntary_ctxt_switches:\t{switches}\nnonvoluntary_ctxt_switches:\t0\n"
    )


def _io(count: int) -> str:
    return (
        f"rchar: {count}\nwchar: {count}\nsyscr: 1\nsyscw: 1\nread_bytes: {count}\nwrite_bytes: {count}\n"
        "cancelled_write_bytes: 0\n"
    )
