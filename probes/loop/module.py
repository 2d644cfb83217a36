"""Monitor module: source -> checks -> frame, for one resource set.

It has its own interval.
"""

from __future__ import annotations

import time
from array import array
from collections import deque
from collections.abc import Callable, Collection
from typing import Protocol

from acquisition import log
from acquisition.model.codes import FIRST, IS_INVALID, MISSING, VALID, name_of
from acquisition.model.metric import ResourceSet, resource_set_id, schema_hash
from acquisition.model.ticks import tick_of
from acquisition.wire.frame import Samples
from acquisition.wire.keys import DEFAULT_KEEP_TICKS
from acquisition.wire.table import Entity, Table
from probes.checks import Check
from probes.checks.timeout import timed_out
from probes.sampling.native import COLUMNS
from probes.sampling.reading import Reading, marked
from probes.sampling.schedule import Schedule
from probes.sources import Source

_SOURCES, _CHECKS = log.category("probe.sources"), log.category("probe.checks")
#: A free-running tool may be late by this part of the interval before its tick counts as unanswered.
SLACK = 0.05
#: A reading that took more than this part of the interval, and this number of seconds, is torn: it is unknown when each
#: of its counters was read, as after a stop of the probe in the middle of it.
_TORN, _TORN_SECONDS = 0.5, 0.5
#: Vanished entities leave the table, with a complete one, at most this often.
TABLE_SECONDS = 60.0


class Sink(Protocol):
    """Destination of frames: the writer, or a dry run."""

    def offer(self, samples: Samples) -> int:
        """Take a frame of samples."""

    def offer_table(self, names: Table, tick: int, wall: float, monotonic: float) -> int:
        """Take a table."""

    def wants_table(self, resource_set: int) -> bool:
        """Whether a complete table is needed; asking changes nothing."""


def phase_for(source: Source, phase: float, interval: float) -> float:
    """Seconds after the start of an interval at which a module runs, on a host that samples at ``phase``: a tick of a
    free-running tool is examined when it is over."""
    return SLACK * interval if source.free_running else phase


class Module:
    """Reads its source as scheduled, and passes frames and tables to the sink.

    A tick of a free-running source without data is sent as TIMEOUT when it is over (``phase_for``).
    ``schedule`` may be shared with other modules.
    """

    def __init__(
        self,
        resource_set: ResourceSet,
        source: Source,
        check: Check,
        schedule: Schedule,
        host: str,
        sink: Sink,
    ) -> None:
        self.source = source
        self.interval = schedule.interval
        self.invalid = 0
        self.without_value = {MISSING: 0, FIRST: 0}  # samples by code
        self.samples = 0
        self.readings = 0
        self.timeouts = 0
        self.problem = ""  # why the source returned nothing at the last tick
        self.schedule = schedule
        self._set = resource_set
        self._id = resource_set_id(resource_set.name)
        self._schema = schema_hash(resource_set.metrics)
        self._check = check
        self._host = host
        self._sink = sink
        self._entities: list[Entity] | None = None
        self._known: dict[int, Entity] = {}  # from the newest table, by id
        self._ids = b""
        self._glance: Callable[[], bool] | None = getattr(source, "glance", None)
        readings = DEFAULT_KEEP_TICKS * (1 if self._glance is None else 2)
        self._recent: deque[list[Entity]] = deque(maxlen=readings)  # rows of kept ticks stay named
        self._shrunk = False
        self._table_at = 0.0
        self._tick = schedule.tick
        self._torn = False  #: the newest reading
        self._is_rare = self.interval > TABLE_SECONDS

    @property
    def glances(self) -> bool:
        """Whether its source should be asked between two ticks."""
        return self._glance is not None

    @property
    def name(self) -> str:
        """Name of the resource set."""
        return self._set.name

    def run(self, tick: int, wall: float, monotonic: float) -> None:
        """Process the tick begun by its schedule."""
        if not self.source.free_running:
            reading = self._sample(wall, monotonic)
        elif tick - 1 <= self._tick <= tick:
            return  # the past tick was answered, or its line came just after it
        else:
            tick -= 1
            reading = self.source.timed_out(wall, monotonic)
            self.timeouts += bool(reading is None or reading.entities)
            if _SOURCES.informs:
                _SOURCES.info("delivered nothing in time", set=self.name, source=self.source.name, tick=tick)
        if reading is not None:
            self.emit(reading, tick)

    def glance(self, wall: float, monotonic: float) -> bool:
        """Read between two ticks if entities have come or gone; returns whether it has. The reading belongs to the tick
        in which it is taken, beside that of its deadline: a reader sees the newer one."""
        try:
            if self._glance is None or not self._glance():
                return False
        except (OSError, ValueError, IndexError):  # the next tick reports the problem
            return False
        reading = self._sample(wall, monotonic)
        if reading is not None:
            self.emit(reading, tick_of(wall, self.interval))
        return True

    def _sample(self, wall: float, monotonic: float) -> Reading | None:
        """Ask the source; input it cannot handle costs only this module this tick. A torn
        reading costs two: the next one counts from it."""
        try:
            began, torn = time.monotonic(), self._torn
            reading = self.source.sample(wall, monotonic)
            self._torn = time.monotonic() - began > max(_TORN * self.interval, _TORN_SECONDS)
            if _SOURCES.informs and self.problem:
                _SOURCES.info("works again", set=self.name, source=self.source.name)
            self.problem = ""
            if reading is not None and (torn or self._torn):
                self.timeouts += 1
                return timed_out(self._set, reading.entities, wall, monotonic, reading.dt)
            return reading
        except (OSError, ValueError, IndexError) as error:
            problem = f"{type(error).__name__}: {error}"
            if _SOURCES.informs and problem != self.problem:
                _SOURCES.info("fails", set=self.name, source=self.source.name, problem=problem)
            self.problem = problem
            self.timeouts += 1
            return timed_out(self._set, self._entities or [], wall, monotonic)

    def service(self, wall: float, monotonic: float, ready: Collection[int]) -> None:
        """Let the source process new data."""
        reading = self.source.service(wall, monotonic, ready)
        if reading is not None:
            self.emit(reading, tick_of(reading.wall, self.interval))

    def emit(self, reading: Reading, tick: int) -> None:
        """Check a reading and pass it on as a frame, preceded by a table if one is needed."""
        self._tick = tick
        if not reading.entities and not self.readings:
            self._entities = reading.entities
            return  # a set that never had entities is silent; one that had any reports that they are gone
        if _SOURCES.debugs:
            seconds = time.monotonic() - reading.monotonic  # including those of earlier modules in the same tick
            _SOURCES.debug(
                "read", set=self.name, source=self.source.name, tick=tick, entities=len(reading.entities),
                samples=len(reading.codes), seconds=seconds,
            )  # fmt: skip
        self._check(reading)
        self._name_entities(reading, tick)
        codes = reading.codes
        imperfect = codes.count(VALID) < len(codes)
        if imperfect:
            if _CHECKS.debugs:
                for marks in marked(reading):
                    _CHECKS.debug("marked", set=self.name, tick=tick, **marks._asdict())
            self.invalid += codes.translate(IS_INVALID).count(1)
            for code in self.without_value:
                self.without_value[code] += codes.count(code)
        self.samples += len(codes)
        self.readings += 1
        self._sink.offer(
            Samples(
                self._id,
                self._schema,
                len(reading.entities),
                len(self._set.metrics),
                self.interval,
                tick,
                reading.wall,
                reading.monotonic,
                self._ids,
                pack(reading.values),
                bytes(codes) if imperfect else b"",
            )
        )

    def _name_entities(self, reading: Reading, tick: int) -> None:
        """Send a table if names may be unknown: a complete one at the start and after doubt, else the new ones
        and those with changed labels."""
        entities = reading.entities
        # a filter may have forgotten the names of a rarely read set ([filter] expire_seconds)
        complete = self._sink.wants_table(self._id) or (bool(entities) and (not self._known or self._is_rare))
        self._recent.append(entities)
        if self._shrunk and reading.monotonic - self._table_at > TABLE_SECONDS:
            complete = True
        if entities is not self._entities:
            self._entities = entities
            self._ids = array("Q", [entity.id for entity in entities]).tobytes()
            named = {entity.id: entity for entity in entities}
            self._shrunk = self._shrunk or not self._known.keys() <= named.keys()
            come = [entity for entity in entities if self._known.get(entity.id) != entity]
            self._known |= named
            if come and not complete:
                self._send_table(come, False, reading, tick)
        if complete:
            named = {entity.id: entity for recent in self._recent for entity in recent}
            self._send_table(list(named.values()), True, reading, tick)
            self._shrunk = len(named) > len(entities)

    def _send_table(self, entities: list[Entity], complete: bool, reading: Reading, tick: int) -> None:
        names = Table(
            self._host,
            self._set.name,
            self.interval,
            self.source.name,
            complete,
            self._set.metrics,
            tuple(entities),
        )
        self._sink.offer_table(names, tick, reading.wall, reading.monotonic)
        if complete:
            self._table_at = reading.monotonic
            self._known = {entity.id: entity for entity in entities}

    def account(self) -> dict[str, object]:
        """Figures about this module, for the probe's status."""
        schedule = self.schedule
        return {
            "source": self.source.name,
            "interval": self.interval,
            "ticks": schedule.ticks,
            "readings": self.readings,
            "missed_ticks": schedule.missed,
            "timeouts": self.timeouts,
            "late_seconds": round(schedule.late_seconds, 6),
            "latest_seconds": round(schedule.latest_seconds, 6),
            "samples": self.samples,
            "invalid": self.invalid,
            "without_value": {name_of(code): count for code, count in self.without_value.items()},
            "problem": self.problem,
            **self.source.account(),
        }


def pack(values: array[float]) -> bytes:
    """float64 as little-endian float32; values that do not fit become infinite."""
    packed: bytes = COLUMNS.pack(values)
    if _BIG_ENDIAN:
        swapped = array("f", packed)
        swapped.byteswap()
        return swapped.tobytes()
    return packed


_BIG_ENDIAN = array("H", [1]).tobytes() == b"\0\1"
