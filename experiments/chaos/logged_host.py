"""Logged host: the product's writer and ring, seeded samples, and a log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from acquisition.link.resp import Address
from acquisition.link.trust.credentials import Credentials
from acquisition.model.ticks import tick_of
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
from experiments.chaos import host_log
from experiments.chaos.host_log import HostLog, Note
from experiments.chaos.load import Load, Row
from experiments.emulation.workload import host_name, host_number


class LoggedHost:
    """Continues where an earlier process of the same host was killed.

    ``slots`` are its turns in each interval of the load, ``due`` is the next service time of its writer, ``registered``
    the state in the event loop, ``ahead`` the error of its wall clock. Raises LogError if ring and log do not match.
    """

    def __init__(
        self,
        load: Load,
        index: int,
        seeds: Sequence[Address],
        ring: Path,
        log: Path,
        ring_bytes: int,
        held: float,
        credentials: Credentials | None = None,
    ) -> None:
        self.index = index
        self.number = host_number(index)
        self.due = 0.0
        self.ahead = 0.0
        self.registered = (-1, 0, 0)
        self._load = load
        self.slots = load.slots(index)
        self._rows: tuple[Row, ...] = ()
        self._outbox = Outbox(str(ring), ring_bytes, held)
        self._log = HostLog(log)
        self.made = self._take_up(log)
        self.writer = Writer(self.number, host_name(index), seeds, credentials or Credentials(), self._outbox)

    def _take_up(self, path: Path) -> int:
        """Compare ring and log; returns the number of sample frames made so far."""
        notes = host_log.read(path)
        window = self._outbox.windows.get(self._load.set_id)
        made, epoch = (window.made, window.epoch) if window is not None else (0, 0)
        count = host_log.made_notes(notes, made, epoch or (notes[0].epoch if notes else 0))
        self._log.cut(count)
        return count

    def early(self) -> float:
        """Seconds by which the next sampling ends before it is due: no two intervals are alike."""
        return self._load.early(self.index, self.made)

    def sample(self, _tick: int, wall: float, monotonic: float) -> int:
        """Note the next frame, then make and offer it; its table first if names may be missing. The tick is that of the
        host's own wall clock. Returns the frame's number of samples."""
        load, number = self._load, self.made
        wall += self.ahead
        rows = load.rows(self.index, number)
        came = set(rows) - set(self._rows)
        interval = load.interval / self.slots
        tick = tick_of(wall, interval)
        if self.writer.wants_table(load.set_id) or came:
            self.writer.offer_table(load.table(self.index, rows), tick, wall, monotonic)
        self._rows = rows
        window = self._outbox.windows[load.set_id]
        samples = len(rows) * load.metrics
        self._log.append(Note(number, samples, window.epoch, window.last + 1, monotonic, wall))
        values, codes = load.bytes_of(self.index, number, len(rows))
        self.writer.offer(
            Samples(
                load.set_id, load.schema, len(rows), load.metrics, interval, tick, wall, monotonic,
                load.ids(self.index, rows), values, codes,
            )
        )  # fmt: skip
        self.made = number + 1
        return samples

    def close(self) -> None:
        """Close writer and log."""
        self.writer.close()
        self._log.close()
