"""Replay into shards: sends captured readings as frames of a host.

The frames go through the writer of live samples, without pacing: as fast as the shard
acknowledges them.
"""

from __future__ import annotations

from array import array

from acquisition.errors import AdmissionError, ShardpulseError
from acquisition.link.resp import error_for
from acquisition.model.metric import resource_set_id, schema_hash
from acquisition.model.ticks import tick_of
from acquisition.outbox.writer import Writer
from acquisition.wire.frame import Samples
from acquisition.wire.table import Entity, Table
from probes.captures.replay import Replayed
from probes.loop.module import pack
from probes.sampling.reading import Reading

_DAY = 86400.0
#: Bytes of values between two waits for the shard: far less than the ring's capacity.
_BURST = 1 << 20


class Pusher:
    """Turns readings of one resource set into frames and tables. ``frames`` and ``samples`` count them.

    A capture with dates keeps its times; times of day become those of today, and rows without
    a time start now. ``now`` is the wall clock.
    """

    def __init__(self, writer: Writer, host: str, source: str, interval: float, patience: float, now: float) -> None:
        self.frames = 0
        self.samples = 0
        self._writer = writer
        self._host = host
        self._source = source
        self._interval = interval
        self._patience = patience
        self._now = now
        self._base: float | None = None
        self._known: set[int] = set()
        self._unsent = 0

    def push(self, replayed: Replayed) -> None:
        """Offer one reading. Raises as ``finish`` if the shard does not accept it within ``patience`` seconds."""
        reading = replayed.reading
        if self._base is None:
            self._base = _base(replayed, self._now)
        wall = self._base + reading.wall
        tick = tick_of(wall, self._interval)
        self._name(reading, wall, tick)
        codes = reading.codes
        values = pack(reading.values)
        metrics = reading.resource_set.metrics
        self._writer.offer(
            Samples(
                resource_set_id(reading.resource_set.name),
                schema_hash(metrics),
                len(reading.entities),
                len(metrics),
                self._interval,
                tick,
                wall,
                reading.monotonic,
                array("Q", [entity.id for entity in reading.entities]).tobytes(),
                values,
                bytes(codes) if any(codes) else b"",
            )
        )
        self.frames += 1
        self.samples += len(codes)
        self._unsent += len(values)
        if self._unsent > _BURST:
            self.finish()

    def finish(self) -> None:
        """Wait until the shard has acknowledged everything.

        Raises the error for the shards' most frequent answer if it has not: TemporaryError, PermissionRefused,
        AdmissionError, ShardError.
        """
        self._unsent = 0
        if not self._writer.drain(self._patience):
            raise _refusal(self._writer)

    def _name(self, reading: Reading, wall: float, tick: int) -> None:
        come = [entity for entity in reading.entities if entity.id not in self._known]
        complete = self._writer.wants_table(resource_set_id(reading.resource_set.name)) or not self._known
        if complete:
            self._known.clear()
            come = reading.entities
        if come:
            self._known.update(entity.id for entity in come)
            self._writer.offer_table(self._table(reading, come, complete), tick, wall, reading.monotonic)

    def _table(self, reading: Reading, entities: list[Entity], complete: bool) -> Table:
        chosen = reading.resource_set
        return Table(self._host, chosen.name, self._interval, self._source, complete, chosen.metrics, tuple(entities))


def _refusal(writer: Writer) -> ShardpulseError:
    """Error for the cause that kept the shards from accepting frames, the most frequent one if there were several."""
    if writer.not_admitted:
        return AdmissionError(f"shards refuse the replay: {writer.problem}")
    errors: dict[str, int] = writer.account()["errors"]
    kind = max(errors, key=errors.__getitem__, default="timeout")
    reason = writer.problem or f"repeated {kind.upper()}" if errors else "no answer"
    return type(error_for(kind.upper()))(f"shards refuse the replay: {reason}")


def _base(first: Replayed, now: float) -> float:
    """Offset that makes the first reading's time one since 1970."""
    if first.time is None:
        return now - first.reading.wall
    return 0.0 if "T" in first.time else now - now % _DAY
