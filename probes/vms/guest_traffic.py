"""Network traffic of guests, from the tap interfaces held by their processes.

Each has its own network namespace.

The host sees a tap from the other side: the guest receives what the host transmits into it. A tap of the same name may
be in every namespace, so each guest's are looked up in /proc/PID/net/dev. The inode of that file identifies the
namespace without any privilege (/proc/PID/ns/net requires CAP_SYS_PTRACE): guests of one namespace share a reading.

A namespace lives as long as a descriptor of its files: only that of the host is kept open.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from acquisition.model.codes import MISSING, NAN
from probes.checks.rate import UNKNOWN_LINK, growth
from probes.figures.network import Traffic, total
from probes.figures.row import CounterMemory
from probes.vms.guest_process import Found, taps

NO_RIGHT = "its open files are not readable (CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE)"
NO_TAP = "it has no tap interface open"
MACVTAP = "it uses macvtap, whose bytes are not attributed"
ELSEWHERE = "an open tap is missing from the interfaces of its network namespace"
#: Descriptors are counted after the smaller number of readings, and as soon as the host's interfaces have changed. They
#: are examined if their number has changed, if a tap is gone, and if the kernel does not count them (before
#: Linux 6.2); otherwise after the larger number of readings.
_OFTEN, _SELDOM = 2, 300
_OUTDATED = -1  #: number of descriptors, if one of its taps is gone
_HOST = 0  #: the namespace of the probe

Cell = tuple[float, int]  #: value and validity code
_Interfaces = dict[str, tuple[int, int]]
_UNKNOWN: tuple[Cell, Cell] = (NAN, MISSING), (NAN, MISSING)


class Cards(NamedTuple):
    """The ``taps`` of a guest, their network ``namespace``, and the number of ``files`` open in the process.
    ``missing``: why its traffic is unknown, "" if it is known."""

    taps: tuple[str, ...]
    namespace: int
    files: int
    missing: str


class _Guest:
    """Memory of one guest."""

    __slots__ = ("cards", "cells", "counters", "missing")

    def __init__(self, cards: Cards) -> None:
        self.cards = cards
        self.counters = CounterMemory()
        self.missing = ""
        self.cells = _UNKNOWN

    def has(self, cards: Cards) -> None:
        """Set the network cards found."""
        self.cards = cards
        self.counters.keep([f"{name}{way}" for name in cards.taps for way in range(2)])

    def count(self, interfaces: _Interfaces, seconds: float) -> None:
        """Process a reading of its namespace, ``seconds`` after the previous one."""
        names = self.cards.taps
        there = bool(names) and all(name in interfaces for name in names)
        self.missing = self.cards.missing or ("" if there else ELSEWHERE)
        if not there:
            if self.cells is not _UNKNOWN:
                self.counters, self.cells = CounterMemory(), _UNKNOWN
                self.cards = self.cards._replace(files=_OUTDATED)
            return
        most = UNKNOWN_LINK * growth(seconds)  # for a tap, which has no speed of its own
        received, transmitted = (
            total([self.counters.rate(f"{name}{way}", interfaces[name][way], seconds, most=most) for name in names])
            for way in (1, 0)
        )
        self.cells = received, transmitted


class GuestTraffic:
    """Traffic of all guests of a host, received and transmitted, below ``proc``."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._host = Traffic(proc)
        self._guests: dict[tuple[int, int], _Guest] = {}  # by pid and start, in the order of the newest reading
        self._names: frozenset[str] = frozenset()  # the interfaces of the host
        self._turn = 0

    def read(self, guests: Sequence[Found], seconds: float) -> bool:
        """Read the traffic of these, ``seconds`` after the previous reading; returns if ``missing`` has changed."""
        before = [guest.missing for guest in self._guests.values()]
        self._turn += 1
        here = self._interfaces(0, _HOST) if guests else {}
        others, self._names = here.keys() != self._names, frozenset(here)
        self._guests = {each[:2]: self._look(each, others) for each in guests}
        seen = {_HOST: here}
        for (pid, _), guest in self._guests.items():
            if not guest.cards.missing and guest.cards.namespace not in seen:
                seen[guest.cards.namespace] = self._interfaces(pid, guest.cards.namespace)
            guest.count(seen.get(guest.cards.namespace, {}), seconds)
        return before != [guest.missing for guest in self._guests.values()]

    def _look(self, found: Found, others: bool) -> _Guest:
        """Memory of a guest, with a check of its cards if the interfaces of the host are ``others``."""
        guest, turn = self._guests.get(found[:2]), found.pid + self._turn
        if guest is not None and turn % _OFTEN and not others and guest.cards.files != _OUTDATED:
            return guest
        files = _size(f"{self._proc}/{found.pid}/fd")
        if guest is None:
            return _Guest(self._cards(found.pid, files))
        if guest.cards.files != files or not files or turn % _SELDOM == 0:
            guest.has(self._cards(found.pid, files))
        return guest

    def _cards(self, pid: int, files: int) -> Cards:
        try:
            names = taps(self._proc, pid)
        except PermissionError:
            return Cards((), _HOST, files, NO_RIGHT)
        except OSError:  # it has just ended
            names = []
        if any(name.startswith("/") for name in names):
            return Cards((), _HOST, files, MACVTAP)
        return Cards(tuple(names), namespace_of(self._proc, pid), files, "" if names else NO_TAP)

    def _interfaces(self, pid: int, namespace: int) -> _Interfaces:
        try:
            if namespace == _HOST:
                return self._host.read()
            with closing(Traffic(f"{self._proc}/{pid}")) as own:
                return own.read()
        except OSError:
            return {}

    def missing(self, found: Found) -> str:
        """Why the traffic of a guest is MISSING, "" if it is not."""
        guest = self._guests.get((found.pid, found.start))
        return "" if guest is None else guest.missing

    def columns(self) -> list[tuple[array[float], bytes]]:
        """Columns of the traffic received and transmitted by all guests: values and codes, in the order of the newest
        reading."""
        ways = [[guest.cells[way] for guest in self._guests.values()] for way in range(2)]
        return [(array("d", [value for value, _ in cells]), bytes([code for _, code in cells])) for cells in ways]

    def close(self) -> None:
        """Close the file."""
        self._host.close()


def namespace_of(proc: str, pid: int) -> int:
    """Network namespace of a process: 0 for that of the host, and if it is missing in a capture."""
    own = _inode(f"{proc}/{pid}/net/dev")
    return _HOST if own == _inode(f"{proc}/net/dev") else own


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except OSError:
        return _HOST
