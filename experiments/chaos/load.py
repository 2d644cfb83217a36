"""Load of a chaos run: values, validity codes and rows, as functions of numbers.

Frame ``number`` (0, 1, 2 …) of a host is determined by (seed, host, number): a log needs to hold
only numbers and times, and a killed generator can continue at any number. Values are cuts
of a seeded strip (``experiments.emulation.values``), 1% of the samples invalid.

Rows: the host, VMs that stay, and a few restless VMs that leave and come back every half minute or so. Those with an
odd serial return as a new incarnation (another epoch, another id), the others with their old identity.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model.identity import entity_id, identity
from acquisition.model.metric import Metric, ResourceSet, resource_set_id, schema_hash
from acquisition.wire.table import Entity, Table
from experiments.emulation.host_figures import figures_at
from experiments.emulation.values import Strip
from experiments.emulation.workload import Workload, host_name, resource_set
from probes.metrics import HOST

RESTLESS = 5
_SHORTEST_PERIOD, _LONGEST_PERIOD = 20, 50  #: frames between two departures of a restless VM
_SHORTEST_ABSENCE, _LONGEST_ABSENCE = 3, 10
_SOURCE = "emulated"
_HEADER_ROOM = 128
TALKATIVE_TIMES = 10  #: frames of a talkative host in each interval, at most
_TALKATIVE_EVERY = 4


class Row(NamedTuple):
    """One row of a frame: 0 is the host; ``incarnation`` grows when a VM comes back as a new one."""

    serial: int
    incarnation: int


class Load:
    """The load of one run; ``entities`` rows are always there, ``RESTLESS`` more come and go. With ``own_figures`` the
    only row is the host, with all host metrics. With ``talkative`` every fourth host has more turns."""

    def __init__(
        self, hosts: int, entities: int, metrics: int, interval: float, seed: int, invalid: float,
        own_figures: bool = False, talkative: bool = False,
    ) -> None:  # fmt: skip
        self.hosts = hosts
        self.entities = entities
        self.metrics = metrics
        self.interval = interval
        self.seed = seed
        self.talkative = talkative
        self.set: ResourceSet = HOST if own_figures else resource_set(metrics)
        self.set_id = resource_set_id(self.set.name)
        self.schema = schema_hash(self.set.metrics)
        workload = Workload(hosts, entities + RESTLESS, metrics, interval, seed, invalid)
        self._strip = _OwnFigures(workload) if own_figures else Strip(workload)
        self._restless = 0 if own_figures else RESTLESS
        self._stable = tuple(Row(serial, 0) for serial in range(entities))

    @property
    def columns(self) -> tuple[Metric, ...]:
        """The metrics."""
        return self.set.metrics

    def frame_bytes(self) -> int:
        """Maximum size of a frame in bytes, in a ring as well."""
        rows = self.entities + RESTLESS
        return _HEADER_ROOM + 8 * rows + 5 * rows * self.metrics

    def slots(self, host: int) -> int:
        """Number of turns of a host in each interval."""
        return TALKATIVE_TIMES if self.is_talkative(host) else 1

    def is_talkative(self, host: int) -> bool:
        """Whether a host can make more frames than others."""
        return self.talkative and host % _TALKATIVE_EVERY == _TALKATIVE_EVERY - 1

    def loudest(self) -> float:
        """Maximum samples per second, with talkative hosts using all of their turns."""
        frames = sum(self.slots(host) for host in range(self.hosts)) / self.interval
        return frames * (self.entities + self._restless) * self.metrics

    def rows(self, host: int, number: int) -> tuple[Row, ...]:
        """Rows of frame ``number`` of a host."""
        present = (_restless(self.seed, host, self.entities + k, number) for k in range(self._restless))
        return self._stable + tuple(row for row in present if row is not None)

    def ids(self, host: int, rows: tuple[Row, ...]) -> bytes:
        """Ids of rows in the format of a frame."""
        return _ids(host, rows)

    def bytes_of(self, host: int, number: int, rows: int) -> tuple[bytes, bytes]:
        """Values (float32) and codes (empty: all valid) of a frame with ``rows`` rows."""
        return self._strip.cut(self._place(host, number), rows)

    def arrays_of(self, host: int, number: int, rows: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.uint8]]:
        """The same as arrays (rows, metrics)."""
        first = self._place(host, number)
        return self._strip.values[first : first + rows], self._strip.codes[first : first + rows]

    def early(self, host: int, number: int) -> float:
        """Seconds by which a sampling ends before it is due: no two intervals are alike."""
        return self._place(host, number) % 200 * 1e-6

    def table(self, host: int, rows: tuple[Row, ...]) -> Table:
        """The names of rows."""
        entities = tuple(entity(host, row) for row in rows)
        interval = self.interval / self.slots(host)
        return Table(host_name(host), self.set.name, interval, _SOURCE, True, self.set.metrics, entities)

    def _place(self, host: int, number: int) -> int:
        return self._strip.row(_start(self._strip, host), number)


class _OwnFigures(Strip):
    """Figures of hosts with a load of a fifth to a third."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        for column, figures in enumerate(figures_at(0.2 + 0.1 * (np.arange(len(self.values)) % 97) / 97)):
            self.values[:, column] = figures
        self._value_bytes = self.values.tobytes()


def entity(host: int, row: Row) -> Entity:
    """The entity of a row."""
    name = host_name(host)
    kind, stable = ("vm", f"{name}/{row.serial}") if row.serial else ("host", name)
    epoch = str(row.incarnation + 1)
    return Entity(entity_id(kind, stable, epoch), kind, stable, epoch, f"{kind}-{host}-{row.serial}")


@lru_cache(4096)
def _ids(host: int, rows: tuple[Row, ...]) -> bytes:
    return b"".join(entity(host, row).id.to_bytes(8, "little") for row in rows)


@lru_cache(4096)
def _start(strip: Strip, host: int) -> int:
    return strip.start(host)


@lru_cache(4096)
def _habits(seed: int, host: int, serial: int) -> tuple[int, int, int]:
    """Period, absence and phase of a restless VM, in frames."""
    dice = identity("restless", str(seed), str(host), str(serial))
    period = _SHORTEST_PERIOD + dice % (_LONGEST_PERIOD - _SHORTEST_PERIOD)
    absence = _SHORTEST_ABSENCE + (dice >> 16) % (_LONGEST_ABSENCE - _SHORTEST_ABSENCE)
    return period, absence, (dice >> 32) % period


def _restless(seed: int, host: int, serial: int, number: int) -> Row | None:
    period, absence, phase = _habits(seed, host, serial)
    turn, place = divmod(number + phase, period)
    if place < absence:
        return None
    return Row(serial, turn if serial % 2 else 0)
