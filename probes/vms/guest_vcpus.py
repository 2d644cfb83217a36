"""Run time and run-queue delay of a guest's vCPUs.

Run time and delay are those of the vCPU threads (``/proc/PID/task/TID/schedstat``, nanoseconds since their start), like
libvirt's ``vcpu.N.time`` and ``.delay``. Delay includes the time for which the guest's own limit kept it from running:
``throttled_time`` (cgroup v1, nanoseconds) or ``throttled_usec`` (v2) in cpu.stat of the cgroups of these threads and
those above. The rest is suffering: time used by others.

A cgroup counts periods once it has a limit. Those without one are checked for a new guest, and after that only
while the guest waits, every few seconds.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from os import pread
from typing import NamedTuple

from acquisition.model.codes import FIRST, MISSING, NAN, RESET, UNREADABLE, VALID
from probes.sampling.host_facts import HostFacts
from probes.sampling.procfs import OpenFile, number_after, read_once

_NANOSECOND = 1e-9
_SIZE, _NUMBERS = 80, 3  #: bytes of schedstat, longer than its numbers of 64 bits
_RAN = 10_000_000  #: nanoseconds; a vCPU that has run no instruction of its guest has taken less to start
_DELAYED = 0.02  #: cores of delay from which on a limit may be the reason
_LOOK_SECONDS = 5.0
_MOST_FILES = int(os.sysconf("SC_OPEN_MAX")) // 4  #: to keep open; further ones are opened at each reading
#: Name in cpu.stat of the time for which a cgroup was kept from running -> nanoseconds.
_THROTTLED = ((b"throttled_time ", 1), (b"throttled_usec ", 1000))

CPU_STAT = "cpu.stat"  #: file of a cgroup with its limit statistics

Cell = tuple[float, int]  #: value and validity code
_MISSING: Cell = (NAN, MISSING)
_NOTHING: Cell = (0.0, VALID)


class Times(NamedTuple):
    """Cores used or waited for by all vCPUs of a guest in an interval, in the order of the columns."""

    run: Cell
    delay: Cell
    throttled: Cell
    suffering: Cell


UNKNOWN = Times(_MISSING, _MISSING, _MISSING, _MISSING)


_NO_THREADS = "its threads have no names, and none has guest time"
_NO_WAITS = "the kernel does not count waits (CONFIG_SCHED_INFO)"
_NO_CGROUP = "no cpu.stat with throttled time is visible in its cgroups"


class _Budget:
    """Files that all guests together may keep open."""

    def __init__(self, files: int) -> None:
        self._left = files

    def take(self) -> bool:
        """Whether one more file may be kept open; if so it is counted."""
        if self._left <= 0:
            return False
        self._left -= 1
        return True

    def give(self) -> None:
        """One of them was closed, or could not be opened."""
        self._left += 1


_FILES = _Budget(_MOST_FILES)


class VcpuTimes:
    """Reads the times of one guest. ``ran``: any of its vCPUs has run; None if unknown. ``missing``: why some
    of the figures are missing."""

    __slots__ = ("_base", "_followed", "_limits", "_looked", "_open", "_threads", "missing", "ran")

    def __init__(self, facts: HostFacts, pid: int) -> None:
        self._base = f"{facts.proc}/{pid}/task"
        self._followed: tuple[int, ...] = ()
        self._threads: dict[int, tuple[int, int] | None] = {}  # run time and delay at the previous reading
        self._open: dict[int, int] = {}
        self._limits = Limits(facts, self._base)
        self._looked = 0.0
        self.ran: bool | None = None
        self.missing = ""

    def read(self, threads: tuple[int, ...], seconds: float, monotonic: float) -> Times:
        """Times of these threads, ``seconds`` after the previous reading."""
        changed = threads != self._followed
        if changed:
            self._follow(threads)
        if not threads:
            self.missing = _NO_THREADS
            return UNKNOWN
        run, delay = self._grown(seconds)
        if changed or (delay[0] >= _DELAYED and monotonic - self._looked >= _LOOK_SECONDS):
            self._looked = monotonic
            self._limits.look(threads)
        throttled = self._limits.grown(seconds)
        self.missing = _NO_WAITS if delay[1] == MISSING else "" if self._limits.known else _NO_CGROUP
        return Times(run, delay, throttled, _suffering(delay, throttled))

    def note_guest_time(self) -> None:
        """Its process had guest time: a vCPU of it has run."""
        self.ran = True

    def _follow(self, threads: tuple[int, ...]) -> None:
        before, self._followed = self._threads, threads
        self._threads = {thread: before.get(thread) for thread in threads}
        for thread in before.keys() - self._threads.keys():
            self._close(thread)

    def _grown(self, seconds: float) -> tuple[Cell, Cell]:
        """Run time and delay of all threads: one that has just started or ended adds nothing."""
        run = delay = known = longest = 0
        code = FIRST
        kept = self._open
        for thread, old in self._threads.items():
            try:
                words = (pread(kept[thread], _SIZE, 0) if thread in kept else self._text(thread)).split()
                if len(words) != _NUMBERS or not b"".join(words).isdigit():
                    raise ValueError(words)
            except OSError:  # it has ended, and is no longer a thread of the guest at the next look
                self._threads[thread] = None
                continue
            except ValueError:
                self._threads[thread] = None
                code = UNREADABLE
                continue
            new = int(words[0]), int(words[1])
            self._threads[thread] = new
            longest = max(longest, new[0])
            if old is None:
                continue
            known += 1
            run += new[0] - old[0]
            delay += new[1] - old[1]
            if new[0] < old[0] or new[1] < old[1]:
                code = RESET
        if not longest and code != UNREADABLE:  # the kernel counts none (CONFIG_SCHED_INFO): all numbers are 0
            return _MISSING, _MISSING
        self.ran = self.ran or longest > _RAN
        if code != FIRST or not known or seconds <= 0:
            return (NAN, code), (NAN, code)
        return (run / seconds * _NANOSECOND, VALID), (delay / seconds * _NANOSECOND, VALID)

    def _text(self, thread: int) -> bytes:
        """Text about a thread without an open file. Raises OSError if it is gone."""
        path = f"{self._base}/{thread}/schedstat"
        if not _FILES.take():
            return read_once(path, _SIZE)
        try:
            self._open[thread] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            _FILES.give()
            raise
        return pread(self._open[thread], _SIZE, 0)

    def _close(self, thread: int) -> None:
        kept = self._open.pop(thread, None)
        if kept is not None:
            _FILES.give()
            os.close(kept)

    def close(self) -> None:
        """Close all files."""
        for thread in list(self._open):
            self._close(thread)
        self._limits.close()


def _suffering(delay: Cell, throttled: Cell) -> Cell:
    """The part of the delay beyond the guest's own limit; the code of the first unknown one."""
    code = delay[1] or throttled[1]
    return (max(0.0, delay[0] - throttled[0]), VALID) if code == VALID else (NAN, code)


class Limits:
    """CPU limits of the cgroups of some threads of one process (cgroups(7)), whose directory of threads is
    ``base``. ``known``: some cgroup reports how long it was kept from running."""

    __slots__ = ("_base", "_facts", "_limited", "known")

    def __init__(self, facts: HostFacts, base: str) -> None:
        self._facts = facts
        self._base = base
        self.known = False
        self._limited: dict[str, tuple[OpenFile, int | None]] = {}  # nanoseconds at the previous reading

    def look(self, threads: Iterable[int]) -> None:
        """Find the cgroups of these threads, and those among them with a limit."""
        cgroups = {_text(f"{self._base}/{thread}/cgroup") for thread in threads}
        places = [place for text in cgroups if (place := place_of(self._facts.sys, text)) is not None]
        paths = {f"{root}{level}/{CPU_STAT}" for root, cgroup in places for level in levels(cgroup)}
        texts = {path: _text(path) for path in sorted(paths)}
        self.known = any(throttled(text) is not None for text in texts.values())
        limited = [path for path, text in texts.items() if number_after(text, b"nr_periods ")]
        for path in self._limited.keys() - set(limited):
            self._limited[path][0].close()
        self._limited = {path: self._limited.get(path) or (OpenFile(path), None) for path in limited}

    def grown(self, seconds: float) -> Cell:
        """Cores withheld by the limits; 0 if there is none, MISSING if no cgroup reports it."""
        if not self.known:
            return _MISSING
        if not self._limited and seconds > 0:
            return _NOTHING
        total = 0
        code = VALID
        for path, (file, old) in self._limited.items():
            new = throttled(file.read_if_there())
            self._limited[path] = file, new
            if new is None or old is None:
                code = FIRST if new is not None else MISSING
            elif new < old:
                code = RESET
            else:
                total += new - old
        if code != VALID or seconds <= 0:
            return NAN, code or FIRST
        return total / seconds * _NANOSECOND, VALID

    def close(self) -> None:
        """Close all files."""
        for file, _ in self._limited.values():
            file.close()


def throttled(cpu_stat: bytes) -> int | None:
    """Nanoseconds for which a cgroup was kept from running; None if missing in its cpu.stat."""
    for label, scale in _THROTTLED:
        found = number_after(b"\n" + cpu_stat, b"\n" + label)
        if found is not None:
            return found * scale
    return None


def place_of(sys: str, cgroup: bytes) -> tuple[str, str] | None:
    """Path of the hierarchy with the CPU controller below ``sys``, and the path in it, from /proc/PID/cgroup:
    that of cgroup v1, else the one of v2; None if it is not visible in this namespace."""
    found = None
    for line in cgroup.decode("utf-8", "surrogateescape").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if "cpu" in controllers.split(","):
            whole = f"{sys}/fs/cgroup/{controllers}"
            found = whole if os.path.isdir(whole) else f"{sys}/fs/cgroup/cpu", path
            break
        if number == "0":
            found = f"{sys}/fs/cgroup", path
    return None if found is None or "/.." in found[1] else found


def levels(path: str) -> list[str]:
    """A cgroup and all its ancestors, "" for that of the whole hierarchy."""
    parts = path.strip("/").split("/") if path.strip("/") else []
    return ["".join(f"/{part}" for part in parts[:count]) for count in range(len(parts) + 1)]


def _text(path: str) -> bytes:
    try:
        return read_once(path)
    except OSError:
        return b""
