"""Discovery of processes and VMs, and choice of those to watch.

All of /proc is listed once in a round of scans; in between only new pids are examined
(``newcomers``). A process younger than the time between two scans is examined twice, because right
after its start it may still have the name of its parent. Every one is examined again in each round,
as it may become another program; a thread of the kernel only if pids may have wrapped around since. Vanished ones
are noticed when they are read. Virtual machines are detected sooner: a new process is checked several
times (``glance``), as it may become a qemu.

Selected processes: all, or those named by any selector (regular expressions on command
and command line, user ids, cgroup patterns, pids). Kernel threads are watched only
if named by pid. A qemu process is a virtual machine (``probes.vms.qemu``): it belongs to ``vms``, and to
``processes`` as well only if a selector names it. With ``daemons``, the processes that monitor and run virtual
machines are watched whatever the selectors. Beyond ``limit`` the choice is stable: those watched already stay, then the
longest-running come first; the others are counted.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any, NamedTuple

from probes.processes.newcomers import Newcomers, is_thread
from probes.sampling.host_facts import HostFacts
from probes.sampling.procfs import read_once
from probes.vms.guest_process import Found, command_line, executable, guest_of
from probes.vms.qemu import Guest, is_qemu

_KERNEL_THREAD = 0x00200000  # PF_KTHREAD, include/linux/sched.h
#: In this number of scans every process is examined again, some at each: a pid may have been reused
#: between two scans, and a process may have become another program.
_ROUND = 12
#: Commands (15 bytes of them) of processes that run virtual machines, keep the logs and carry the samples.
_DAEMONS = ("libvirtd", "virtqemud", "systemd-journal", "redis-server", "valkey-server")
_OWN = "shardpulse-"
_YOUNG_SECONDS = 2.0  #: during which a newcomer is checked between two scans
_MOST_AGAIN = 100  #: per scan; thousands of processes take a longer round


def is_daemon(command: str) -> bool:
    """Whether a process of this name runs virtual machines, keeps the logs or carries the samples."""
    return command in _DAEMONS or command.startswith(_OWN)


class Selection(NamedTuple):
    """Selection of processes to watch. ``commands`` and ``cgroups`` are regular expressions; ``limit`` bounds their
    number."""

    every: bool = True
    commands: tuple[str, ...] = ()
    uids: tuple[int, ...] = ()
    cgroups: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    limit: int = 1000
    daemons: bool = False

    @classmethod
    def of(cls, fields: dict[str, Any]) -> Selection:
        """A selection from a JSON object with these fields."""
        return cls(
            every=bool(fields["every"]),
            commands=tuple(fields["commands"]),
            uids=tuple(fields["uids"]),
            cgroups=tuple(fields["cgroups"]),
            pids=tuple(fields["pids"]),
            limit=int(fields["limit"]),
            daemons=bool(fields["daemons"]),
        )

    @property
    def named(self) -> bool:
        """Whether any selector is given; then ``every`` is ignored."""
        return bool(self.commands or self.uids or self.cgroups or self.pids)


class Discovery:
    """Finds the processes to watch. ``generation`` grows whenever ``processes`` or ``guests`` changed,
    ``due`` is the time of the next scan, ``left_out`` counts those beyond the limit."""

    def __init__(self, facts: HostFacts, selection: Selection, interval: float) -> None:
        self.generation = 0
        self.processes: dict[int, Found] = {}
        self.guests: dict[int, Found] = {}
        self.left_out = 0
        self._facts = facts
        self._selection = selection
        self._interval = interval
        self.due = 0.0
        self._newcomers = Newcomers(facts.proc)
        self._known: dict[int, Found] = {}  # the selected ones, and guests
        self._listed: set[int] = set()
        self._differs = True  # from the candidates of the choice
        self._again: set[int] = set()  # to be examined by the next scan
        self._pending: set[int] = set()  # started since the newest scan
        self._young: dict[int, float] = {}  # until when a newcomer is checked between two scans
        self._kernel: set[int] = set()  # threads of the kernel, which never become another program
        #: start and command of those without a guest by their command line, as their executable may not be read
        self._others: dict[int, tuple[int, str]] = {}
        self._round: list[int] = []
        self._turns = self._turn = 0
        self._commands = [re.compile(pattern) for pattern in selection.commands]
        self._cgroups = [re.compile(pattern) for pattern in selection.cgroups]

    @property
    def settings(self) -> tuple[Selection, float]:
        """Settings that define another discovery of the same processes: which ones, and seconds between two
        scans."""
        return self._selection, self._interval

    @property
    def limit(self) -> int:
        """Maximum number of processes."""
        return self._selection.limit

    def refresh(self, monotonic: float) -> int:
        """Look for processes if due; returns the generation."""
        if monotonic >= self.due:
            self.due = monotonic + self._interval
            self._facts.refresh()
            self.scan()
        return self.generation

    def forget(self, pid: int) -> None:
        """A process is gone, or has changed: a process with its pid at the next scan is a new one."""
        self._known.pop(pid, None)
        self._differs = True
        self._again.add(pid)
        watched = self.processes.pop(pid, None), self.guests.pop(pid, None)
        if watched != (None, None):  # so that the next scan, if it finds the pid again, is a change
            self.generation += 1

    def glance(self) -> None:
        """Look only for guests, among new processes: one that starts is seen long before the next scan, at
        the cost of reading a link of each newcomer."""
        self._pending.update(self._come(False))
        come = False
        for pid in list(self._young):
            base = f"{self._facts.proc}/{pid}"
            program = executable(base)
            if program is None and not os.path.exists(base):
                self._pending.discard(pid)
                del self._young[pid]
            elif pid not in self.guests and (program is None or is_qemu(program)):
                found = self._look(pid, False)
                if found is not None and found.guest is not None:
                    self._take(pid, found)
                    come = True
        if come:
            self._choose_again()

    def _come(self, every: bool) -> list[int]:
        """Processes started since the last scan; ``every``: list all."""
        is_first, now = not self._listed, time.monotonic()
        new = self._newcomers.look(len(self._listed))
        if new is None:
            self._kernel.clear()  # their pids may have wrapped around
        if new is None or every:
            new = self._list()
        self._listed.update(new)
        self._young = {pid: until for pid, until in self._young.items() if until > now}
        if not is_first:
            self._young.update(dict.fromkeys(new, now + _YOUNG_SECONDS))
        return new

    def scan(self) -> None:
        """Look for processes now."""
        self._turn += 1
        new = {*self._pending, *self._come(self._turn >= self._turns)}
        self._pending.clear()
        again, self._again = self._again, new
        turn = set(self._round[self._turn :: self._turns]) - self._kernel
        settled = (time.clock_gettime(time.CLOCK_BOOTTIME) - self._interval) * self._facts.hertz
        fresh = {*again, *new}
        for pid in fresh | turn:
            found = self._look(pid, pid in fresh)
            self._take(pid, found)
            if found is not None and found.start < settled and self._facts.proc == "/proc":
                self._again.discard(pid)
        self._kernel -= self._again  # a young one may yet become a program: a helper started by the kernel
        self._choose_again()

    def _choose_again(self) -> None:
        if self._differs:
            self._differs = False
            self._choose()

    def _take(self, pid: int, found: Found | None) -> None:
        known = found if found is not None and (found.selected or found.guest is not None) else None
        if known is not None and known != self._known.get(pid) and is_thread(f"{self._facts.proc}/{pid}"):
            known = None  # a thread has the pid of a process that has ended
        if known != self._known.get(pid):
            self._differs = True
            if known is None:
                del self._known[pid]
            else:
                self._known[pid] = known
        if found is not None and found.kernel_thread:
            self._kernel.add(pid)
        else:
            self._kernel.discard(pid)

    def _list(self) -> list[int]:
        """List all; returns the new ones."""
        listed = {int(name) for name in os.listdir(self._facts.proc) if name.isdecimal()}
        new = [pid for pid in listed if pid not in self._listed or self._newcomers.handed_out(pid)]
        self._listed = listed
        for pid in self._known.keys() - listed:
            del self._known[pid]
            self._differs = True
        if self._turn >= self._turns:
            self._turn, self._turns = 0, max(_ROUND, len(listed) // _MOST_AGAIN)
            self._round = list(listed)
            self._kernel &= listed
            self._others = {pid: process for pid, process in self._others.items() if pid in listed}
        return new

    def _choose(self) -> None:
        guests = {pid: found for pid, found in self._known.items() if found.guest is not None}
        wanted = [found for found in self._known.values() if found.selected]
        limit = self._selection.limit
        if len(wanted) > limit:
            wanted.sort(key=lambda found: (found.pid not in self.processes, found.start, found.pid))
        self.left_out = max(0, len(wanted) - limit)
        processes = {found.pid: found for found in wanted[:limit]}
        if processes != self.processes or guests != self.guests:
            self.processes, self.guests = processes, guests
            self.generation += 1

    def _look(self, pid: int, fresh: bool) -> Found | None:
        """A process as it is now. For one that is not ``fresh``, examined once it had settled, the command
        line is read again only if start or command have changed."""
        base = f"{self._facts.proc}/{pid}"
        try:
            text = read_once(f"{base}/stat")
            uid = self._facts.owner(base)
            command, fields = parse_stat(text)
            start, kernel_thread = int(fields[19]), bool(int(fields[6]) & _KERNEL_THREAD)
        except (OSError, ValueError, IndexError):
            return None
        guest = None if kernel_thread else self._guest(pid, base, (start, command), fresh)
        selected = self._select(pid, base, command, uid, kernel_thread, guest is not None)
        return Found(pid, start, command, uid, kernel_thread, guest, selected)

    def _guest(self, pid: int, base: str, process: tuple[int, str], fresh: bool) -> Guest | None:
        program, known = executable(base), self._known.get(pid)
        if not fresh and known is not None and known.guest is not None and known[1:3] == process:
            return known.guest if program is None or is_qemu(program) else None
        if not fresh and program is None and self._others.get(pid) == process:
            return None
        guest = guest_of(base, program)
        if program is None and guest is None:
            self._others[pid] = process
        return guest

    def _select(self, pid: int, base: str, command: str, uid: int, kernel_thread: bool, guest: bool) -> bool:
        selection = self._selection
        if pid in selection.pids:
            return True
        if kernel_thread:
            return False
        if selection.daemons and is_daemon(command):
            return True
        if not selection.named:
            return selection.every and not guest
        if uid in selection.uids:
            return True
        if self._commands:
            line = " ".join(command_line(base))
            if any(pattern.search(line) or pattern.search(command) for pattern in self._commands):
                return True
        return bool(self._cgroups) and any(
            pattern.match(path) for pattern in self._cgroups for path in cgroup_paths(base)
        )


def parse_stat(text: bytes) -> tuple[str, list[bytes]]:
    """Command and the fields from the third (state) on of /proc/PID/stat; a command may contain spaces and parentheses.

    Raises ValueError for invalid text.
    """
    start, end = text.index(b"("), text.rindex(b")")
    return text[start + 1 : end].decode("utf-8", "replace"), text[end + 2 :].split()


def still_there(proc: str, found: Found) -> bool:
    """Whether the very process that was found has not ended; True also if that is unknown."""
    try:
        return int(parse_stat(read_once(f"{proc}/{found.pid}/stat"))[1][19]) == found.start
    except (FileNotFoundError, ProcessLookupError):
        return False
    except (OSError, ValueError, IndexError):
        return True


def cgroup_paths(base: str) -> list[str]:
    """Cgroup paths of the process at ``base``, of every hierarchy (cgroups(7))."""
    try:
        lines = read_once(f"{base}/cgroup").decode("utf-8", "replace").splitlines()
    except OSError:
        return []
    return [line.split(":", 2)[2] for line in lines if line.count(":") >= 2]
