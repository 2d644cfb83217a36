"""Page scene: machines, a real filter and service, and a browser."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from acquisition.link.cluster import Cluster
from acquisition.link.layouts import read_layout
from filters.worker.inputs.plan import InputsSettings
from filters.worker.loop.assembly import lone_worker
from filters.worker.partitions.settings import FilterSettings
from tests.support.data_center import Machine
from tests.support.holding import hold_partitions

HOSTILE = "<img src=x onerror=document.title='broken'>\u202egnp"
TICKS = 45


class Data:
    """Machines that send every second, and a filter worker that smooths it, in a thread; without ``smooths`` a filter
    of its own does."""

    def __init__(self, cluster: Cluster, machines: Sequence[Machine], smooths: bool = True) -> None:
        settings = FilterSettings(linger_seconds=0.0, retention_seconds=300.0, inputs=InputsSettings())
        hold_partitions(cluster)
        self._worker = lone_worker(cluster, read_layout(cluster), settings) if smooths else None
        self.machines = list(machines)
        self._stop = threading.Event()
        self._next = int(time.time()) - TICKS
        for machine in machines:
            machine.send_tables(self._next + 0.5)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            while self._next + 0.5 <= time.time():
                for machine in list(self.machines):
                    machine.send(self._next + 0.5)
                self._next += 1
            if self._worker is not None:
                self._worker.turn(0.05)
            else:
                self._stop.wait(0.05)
        if self._worker is not None:
            self._worker.close()

    def __enter__(self) -> Data:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(5)
