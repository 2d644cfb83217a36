"""Huge page memory of guests, not included in their resident memory.

It is HugetlbPages of /proc/PID/status (Linux 4.4).

Only hosts with huge pages pay for it: status is read for a new guest and then every few seconds.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable
from typing import NamedTuple

from acquisition.model.codes import MISSING, NAN, VALID
from probes.figures.process_row import RESIDENT, SHARE, WIDTH
from probes.sampling.host_facts import HostFacts
from probes.sampling.procfs import number_after, read_once
from probes.vms.guest_process import Found, command_line

_SECONDS = 5.0  #: between two readings of status
_KIB = 1024.0
#: qemu(1): -mem-path, -object memory-backend-file,mem-path= and memory-backend-memfd,hugetlb=on, as key=value or JSON.
_IN_OPTIONS = re.compile(r"""mem-path"?[=:\0] ?"?[^",\0]*huge|hugetlb"?[=:] ?"?(?:on|yes|true|y)\b""")


class Backing(NamedTuple):
    """Memory of a guest in huge pages: ``size`` bytes, None if the kernel does not report it; ``asked``: its options
    request huge pages."""

    size: float | None
    asked: bool

    @property
    def is_huge(self) -> bool:
        """Whether the guest needs huge pages on any host."""
        return self.asked or bool(self.size)


_NOTHING = Backing(0.0, False)


class GuestHugepages:
    """Memory in huge pages of all ``guests`` of the host."""

    def __init__(self, facts: HostFacts, guests: Callable[[], list[Found]]) -> None:
        self._facts = facts
        self._guests = guests
        self._known: dict[tuple[int, int], Backing] = {}  # by pid and start, in the order of the guests
        self._due = 0.0

    def of(self, found: Found) -> Backing:
        """Known backing of a guest."""
        return self._known.get((found.pid, found.start), _NOTHING)

    def look(self, others: bool, monotonic: float) -> bool:
        """Read what is due, immediately if there are ``others`` than before; returns whether the guests backed by
        huge pages have changed."""
        due = monotonic >= self._due
        if not (self._facts.hugepages or self._known) or not (due or others):
            return False
        before = self._backed()
        if due:
            self._due = monotonic + _SECONDS
        guests = self._guests() if self._facts.hugepages else ()
        self._known = {(each.pid, each.start): self._read(each, due) for each in guests}
        return self._backed() != before

    def _backed(self) -> set[tuple[int, int]]:
        return {guest for guest, backing in self._known.items() if backing.is_huge}

    def _read(self, guest: Found, due: bool) -> Backing:
        old = self._known.get((guest.pid, guest.start))
        if old is not None and (not due or old.size is None):  # a kernel without the line will never have it
            return old
        base = f"{self._facts.proc}/{guest.pid}"
        asked = is_asked(command_line(base)) if old is None else old.asked
        try:
            size = number_after(read_once(f"{base}/status"), b"\nHugetlbPages:")
        except OSError:  # it may not be read; or it has ended, and is missing in the next reading
            return old or Backing(None, asked)
        return Backing(None if size is None else size * _KIB, asked)

    def add(self, figures: array[float], codes: bytearray) -> None:
        """Add the memory in huge pages to resident memory in rows of WIDTH, one per guest; MISSING if a guest
        has an unknown amount of huge pages."""
        memory = self._facts.memory_bytes
        for row, (size, asked) in enumerate(self._known.values()):
            for column, whole in ((RESIDENT, 1.0), (SHARE, memory)):
                at = row * WIDTH + column
                if size is None and asked and codes[at] == VALID:
                    figures[at], codes[at] = NAN, MISSING
                elif size and codes[at] == VALID:
                    figures[at] += size / whole if whole else NAN


def is_asked(arguments: list[str]) -> bool:
    """Whether qemu's command line puts the memory of the guest into huge pages: below a directory with such a name, as
    for mounts of hugetlbfs, or in a memfd. ``-mem-prealloc`` alone does not."""
    return _IN_OPTIONS.search("\0".join(arguments)) is not None
