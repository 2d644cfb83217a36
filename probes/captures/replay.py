"""Replay of vmstat or pidstat output through the live parser and checks.

It is a stream: one tick is in memory at a time, whatever the length of the capture. Limits of the
sampled machine come from the captured banner or from the caller, never from the
machine that runs the replay.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any, BinaryIO, NamedTuple

from acquisition.model.codes import VALID, name_of
from acquisition.model.identity import entity_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks import Check
from probes.loop.dry_run import json_value
from probes.metrics import HOST, PIDSTAT_METRICS, PROCESSES, VMSTAT_METRICS
from probes.sampling.reading import Reading
from probes.tools.pidstat import PidstatParser, ProcessRow, ProcessTick
from probes.tools.tool_clock import Moment, ToolClock, iso
from probes.tools.tool_output import MAX_LINE, Rejections
from probes.tools.vmstat import VmstatParser

VMSTAT_SET: ResourceSet = HOST.select(VMSTAT_METRICS)
PIDSTAT_SET: ResourceSet = PROCESSES.select(PIDSTAT_METRICS)
_MAX_ENTITIES = 65536


class Machine(NamedTuple):
    """The sampled machine, as far as known: 0 means unknown."""

    host: str = ""
    cores: int = 0
    memory_bytes: float = 0.0


class Replayed(NamedTuple):
    """A checked reading and the time of its tick as ISO 8601 (None if the capture has none)."""

    time: str | None
    reading: Reading


def lines_of(file: BinaryIO) -> Iterator[bytes]:
    """Lines of a file in bounded memory: of a line longer than MAX_LINE only the beginning is returned,
    one byte longer than MAX_LINE, and the rest is skipped."""
    while line := file.readline(MAX_LINE + 1):
        yield line
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            line = file.readline(MAX_LINE + 1)
            if len(line) <= MAX_LINE:
                break


def replay_vmstat(
    file: BinaryIO, parser: VmstatParser, check: Check, machine: Machine, interval: float
) -> Iterator[Replayed]:
    """A checked reading of the host per row. ``interval`` is used if rows have no time."""
    name = machine.host or "host"
    entities = [Entity(entity_id("host", name, "replay"), "host", name, "replay", name)]
    timeline = _Timeline(interval)
    for line in lines_of(file):
        row = parser.feed(line)
        if row is None:
            continue
        time = timeline.advance(row.time, row.stamp)
        reading = timeline.reading(VMSTAT_SET, entities, row.values, row.codes, machine, [row.line])
        check(reading)
        yield Replayed(time, reading)


def replay_pidstat(
    file: BinaryIO, parser: PidstatParser, check: Check, machine: Machine, interval: float
) -> Iterator[Replayed]:
    """A checked reading of all processes per tick; host and cores missing in ``machine``
    come from the banner. ``interval`` is used if times cannot be read."""
    entities = _Processes()
    timeline = _Timeline(interval)
    sampled = machine
    known = None
    for line in chain(lines_of(file), (None,)):
        tick = parser.flush() if line is None else parser.feed(line)
        if tick is not None and tick.rows:
            time = timeline.advance(tick.time)
            reading = _process_reading(tick, timeline, entities, sampled)
            check(reading)
            yield Replayed(time, reading)
        if parser.banner is not known:  # after the tick that ended with the banner
            known = parser.banner
            if known is not None:
                timeline.clock.begin(known.date)
                sampled = Machine(machine.host or known.host, machine.cores or known.cores, machine.memory_bytes)


def documents(replayed: Replayed) -> Iterator[dict[str, Any]]:
    """A JSON object per entity: ``line, time, entity, metrics {name: value}, invalid {name: {value, code}}``.

    ``value`` of an invalid sample is its raw value: null if missing, the strings
    ``Infinity`` and ``-Infinity`` for values that JSON cannot represent.
    """
    reading = replayed.reading
    names = [metric.name for metric in reading.resource_set.metrics]
    width = len(names)
    for row, entity in enumerate(reading.entities):
        values = reading.values[row * width : (row + 1) * width]
        codes = reading.codes[row * width : (row + 1) * width]
        invalid = {}
        metrics = dict(zip(names, values, strict=True))
        if any(codes):
            invalid = {
                name: {"value": json_value(value), "code": name_of(code)}
                for name, value, code in zip(names, values, codes, strict=True)
                if code != VALID
            }
            metrics = {name: value for name, value in metrics.items() if name not in invalid}
        yield {
            "line": reading.lines[row],
            "time": replayed.time,
            "entity": _label(entity),
            "metrics": metrics,
            "invalid": invalid,
        }


def summary(tool: str, parser: VmstatParser | PidstatParser, invalid: Mapping[int, int]) -> str:
    """Readable summary of the lines: counts of all kinds, which add up to the lines read, then each reason with its
    line numbers.

    ``invalid``: validity code -> samples.
    """
    counted = ", ".join(f"{count} {name_of(code)}" for code, count in sorted(invalid.items()) if count)
    samples = f"samples not valid: {counted}" if counted else "all samples valid"
    rejected = parser.rejected
    counts = [f"{parser.parsed} rows parsed ({samples})", f"{rejected.count} rejected"]
    counts += [f"{count} {kind}" for kind, count in sorted(parser.passed.items())]
    parts = [f"{tool}: {parser.lines} lines: {', '.join(counts)}"]
    if parser.unknown:
        parts.append(f"  unknown columns: {', '.join(sorted(parser.unknown))}")
    parts.extend(
        f"  rejected, {reason}: {count} ({_line_numbers(rejected, reason)})"
        for reason, count in rejected.counts.items()
    )
    return "\n".join(parts)


def _line_numbers(rejected: Rejections, reason: str) -> str:
    ranges = rejected.lines[reason]
    shown = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    listed = sum(last - first + 1 for first, last in ranges)
    more = rejected.counts[reason] - listed
    return f"line{'s' if listed + more > 1 else ''} {shown}{f' and {more} more' if more else ''}"


def _label(entity: Entity) -> str:
    """``host`` for a host, ``pid/command`` for a process."""
    return f"{entity.labels['pid']}/{entity.name}" if entity.kind == "process" else entity.name


def _process_reading(tick: ProcessTick, timeline: _Timeline, entities: _Processes, machine: Machine) -> Reading:
    rows = tick.rows.values()
    values = [value for row in rows for value in row.values]
    codes = bytearray().join([row.codes for row in rows])
    who = [entities.of(row, machine.host) for row in rows]
    return timeline.reading(PIDSTAT_SET, who, values, codes, machine, [row.line for row in rows])


class _Processes:
    """Entities by pid. A capture has no start times: a pid with another command is a new epoch."""

    def __init__(self) -> None:
        self._known: dict[int, Entity] = {}

    def of(self, row: ProcessRow, host: str) -> Entity:
        """Entity of a row."""
        found = self._known.get(row.pid)
        if found is None or found.name != row.command:
            if len(self._known) >= _MAX_ENTITIES:
                self._known.clear()
            stable, epoch = f"{host}:{row.pid}", f"replay:{row.command}"
            labels = {"pid": str(row.pid)}
            found = Entity(entity_id("process", stable, epoch), "process", stable, epoch, row.command, labels)
            self._known[row.pid] = found
        return found


class _Timeline:
    """Wall and monotonic time of a capture: its own times if it has any, else intervals."""

    def __init__(self, interval: float) -> None:
        self.clock = ToolClock()
        self._interval = interval
        self._wall = 0.0
        self._monotonic = 0.0
        self._dt = 0.0
        self._newest: Moment | None = None
        self._stamped = False  # rows without a time count from a stamp

    def advance(self, text: str, stamp: str = "") -> str | None:
        """Move to the next tick, printed as ``text``, in a run below ``stamp``; returns its time as ISO 8601, None
        if unknown."""
        before = self._newest
        moment = self._newest = self.clock.read(text) if text else None
        self._dt = self._interval
        started = self.clock.read_stamp(stamp) if stamp else None
        self._stamped = started is not None if stamp else self._stamped
        if moment is None:
            self._wall = (started.seconds if started else self._wall) + self._interval
        elif before is None or not before.exact or not moment.exact:
            # in a minute printed without seconds, ticks are an interval apart
            goes_on = before is not None and moment.seconds >= before.seconds
            self._wall = max(moment.seconds, self._wall + self._interval) if goes_on else moment.seconds
        else:
            passed = moment.seconds - self._wall
            self._dt = passed if passed > 0 else self._interval
            self._wall = moment.seconds
        self._monotonic += self._dt
        if moment is None and self._stamped and not text:
            return iso(self._wall)
        return moment.text if moment else None

    def reading(
        self,
        resource_set: ResourceSet,
        entities: list[Entity],
        values: list[float],
        codes: bytearray,
        machine: Machine,
        lines: list[int],
    ) -> Reading:
        """Reading of this tick, from these lines of the capture."""
        return Reading(
            resource_set,
            entities,
            array("d", values),
            codes,
            self._wall,
            self._monotonic,
            self._dt,
            machine.cores,
            machine.memory_bytes,
            lines,
        )
