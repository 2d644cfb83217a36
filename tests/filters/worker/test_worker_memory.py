"""A filter worker holds no more memory after many frames than after few, while VMs come and go all the time.

Resident memory says little in so short a time: what Python and malloc have handed out says whether anything is kept.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import time
from itertools import count
from typing import NamedTuple

from acquisition.link.cluster import Cluster
from filters.runtime.memory import Sweeper
from filters.worker.loop.worker import Worker
from tests.support.data_center import Guest, Machine, smooth, smoothing

HOSTS, GUESTS = 6, 8
EARLY, LATE = 60, 260  #: ticks: more than the filter keeps of anything
_FIELDS = ["arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"]


class _Mallinfo(ctypes.Structure):
    """struct mallinfo2 (mallinfo(3))."""

    _fields_ = [(name, ctypes.c_size_t) for name in _FIELDS]


class Held(NamedTuple):
    objects: int
    blocks: int
    handed_out: int  #: bytes of malloc


def held() -> Held:
    gc.collect()
    libc = ctypes.CDLL(None)
    libc.mallinfo2.restype = _Mallinfo
    found = libc.mallinfo2()
    return Held(len(gc.get_objects()), sys.getallocatedblocks(), found.uordblks + found.hblkhd)


class Center:
    """Hosts of which one has another VM at every tick."""

    def __init__(self, cluster: Cluster, worker: Worker) -> None:
        self.worker, self._numbers, self._ticks = worker, count(), 0
        self.machines = [Machine(cluster, f"h{number}", self._guests(GUESTS)) for number in range(HOSTS)]
        self._first = int(time.time()) - 600
        for machine in self.machines:
            machine.send_tables(self._first + 0.5)

    def _guests(self, many: int) -> tuple[Guest, ...]:
        return tuple(Guest(f"vm{next(self._numbers)}", 0.5, 2) for _ in range(many))

    def run(self, until: int) -> None:
        for tick in range(self._ticks + 1, until + 1):
            changed = self.machines[tick % HOSTS]
            changed.guests = changed.guests[1:] + self._guests(1)
            changed.send_tables(self._first + tick + 0.4)
            for machine in self.machines:
                machine.send(self._first + tick + 0.5)
            self.worker.turn(0.0)
        self._ticks = until
        smooth(self.worker, self.machines, self._first + until)


def test_a_worker_keeps_nothing_of_what_has_gone(cluster: Cluster) -> None:
    with smoothing(cluster) as worker:
        center = Center(cluster, worker)
        center.run(EARLY)
        early = held()
        center.run(LATE)
        late = held()
    assert late.objects - early.objects < HOSTS * (LATE - EARLY) / 4
    assert late.blocks - early.blocks < HOSTS * (LATE - EARLY) * 3 / 4
    assert late.handed_out < 1.05 * early.handed_out + 100_000


def _free_tuples() -> None:
    """Leave 1,500 tuples of thirteen in the interpreter's list of free ones: each is made of one that grows."""
    made = [tuple(number for number in range(13)) for _ in range(1_500)]
    assert len(made) == 1_500


def test_a_sweep_gives_back_what_the_interpreter_keeps_of_tuples() -> None:
    was_enabled = gc.isenabled()
    try:
        sweeper = Sweeper()
        sweeper.turn(0.0)
        swept = sys.getallocatedblocks()
        _free_tuples()
        assert sys.getallocatedblocks() > swept + 1_000
        sweeper.turn(100.0)
        assert sys.getallocatedblocks() < swept + 200
    finally:
        gc.unfreeze()
        if was_enabled:
            gc.enable()
