"""Source in a child process, for a library whose calls may block.

The probe's ticks continue meanwhile.

The child (``main``) samples on its own schedule, at absolute deadlines, and writes a line per tick, so to the
probe it is a free-running tool like vmstat: a tick without a line becomes TIMEOUT, and after PATIENCE of them in a
row the child is killed and restarted. It is a full Python with the installed packages, unlike the probe.

A line is ``{"wall", "monotonic", "dt", "cores", "memory_bytes", "values", "codes"}``, with ``entities`` (rows of
``acquisition.wire.table.Entity``) whenever they have changed, or ``{"problem": TEXT}`` for a tick without a
reading. ``values`` are float64 and ``codes`` bytes, both in base64: JSON's own numbers take nine times as long.
"""

from __future__ import annotations

import json
import os
import sys
import time
from array import array
from binascii import a2b_base64, b2a_base64
from importlib import import_module
from signal import SIGKILL
from typing import Any

import acquisition
import probes
from acquisition.log import category
from acquisition.model.identity import host_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.checks.timeout import timed_out
from probes.metrics import RESOURCE_SETS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sampling.schedule import Schedule, phase_of
from probes.sources import Request, Source
from probes.tools.tool_child import OneChild, ToolChild


def main(text: str) -> None:
    """Run until the probe is gone; ``text`` is the task as JSON (``command_of``)."""
    out = os.dup(1)
    os.dup2(2, 1)  # output of a library is not for the probe
    task = json.loads(text)
    facts = HostFacts(task["host"], scope=task["scope"])
    discovery = Discovery(facts, Selection.of(task["selection"]), task["discovery_interval"])
    resource_set = RESOURCE_SETS[task["resource_set"]].select(tuple(task["metrics"]))
    interval, options = task["interval"], task.get("options", {})
    try:
        source = import_module(task["module"]).create(
            Request(resource_set, interval, facts, discovery, category("probe"), options)
        )
    except ImportError as error:
        sys.exit(f"shardpulse probe: {task['module']} cannot be imported: {error}")
    if source is None:
        sys.exit(f"shardpulse probe: {task['module']} is not available here")
    try:
        phase = options.get("phase")
        phase = phase_of(host_id(facts.name), interval) if phase is None else phase
        _run(source, Schedule(interval, phase, time.time(), time.monotonic()), out)
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)


def _run(source: Source, schedule: Schedule, out: int) -> None:
    sent: list[Entity] | None = None
    if problem := getattr(source, "problem", ""):  # the first tick may be a day away
        _write(out, encode_problem(problem))
    while True:
        time.sleep(max(0.0, schedule.deadline - time.monotonic()))
        schedule.begin(time.time(), time.monotonic())
        try:
            reading = source.sample(time.time(), time.monotonic())
        except Exception as error:  # from a library, which may fail in any way
            _write(out, encode_problem(f"{type(error).__name__}: {error}"))
            continue
        if reading is not None:
            _write(out, encode(reading, reading.entities is not sent))
            sent = reading.entities


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]


_BYTES = 8  #: of a value


def encode(reading: Reading, with_entities: bool) -> bytes:
    """Line of a reading."""
    document: dict[str, Any] = {
        "wall": reading.wall,
        "monotonic": reading.monotonic,
        "dt": reading.dt,
        "cores": reading.cores,
        "memory_bytes": reading.memory_bytes,
        "values": b2a_base64(array("d", reading.values).tobytes(), newline=False).decode(),
        "codes": b2a_base64(reading.codes, newline=False).decode(),
    }
    if with_entities:
        document["entities"] = reading.entities
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def encode_problem(problem: str) -> bytes:
    """Line of a tick without a reading."""
    return json.dumps({"problem": problem}).encode() + b"\n"


def decode(line: bytes, resource_set: ResourceSet, entities: list[Entity]) -> Reading | str:
    """The reading in a line, or the problem in it; ``entities`` are those of the previous line. Raises
    ValueError for a line that no child of this version writes."""
    try:
        document = json.loads(line)
        if "problem" in document:
            return str(document["problem"])
        if "entities" in document:
            entities = [_entity(*row) for row in document["entities"]]
        values = array("d", a2b_base64(document["values"]))
        codes = bytearray(a2b_base64(document["codes"]))
        if not len(values) == len(codes) == len(entities) * len(resource_set.metrics):
            raise ValueError(f"{len(values)} values of {len(entities)} entities")
        wall, monotonic, dt = (float(document[name]) for name in ("wall", "monotonic", "dt"))
        cores, memory_bytes = int(document["cores"]), float(document["memory_bytes"])
    except (TypeError, KeyError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueError(f"no reading: {error!r}") from error
    return Reading(resource_set, entities, values, codes, wall, monotonic, dt, cores, memory_bytes)


def _entity(number: int, kind: str, stable: str, epoch: str, name: str, labels: dict[str, str]) -> Entity:
    if not 0 <= number < 1 << (8 * _BYTES):
        raise ValueError(f"invalid entity id {number}")
    return Entity(number, str(kind), str(stable), str(epoch), str(name), {str(k): str(v) for k, v in labels.items()})


#: -I ignores the caller's environment; -X no_debug_ranges saves memory.
_FLAGS = ("-I", "-X", "no_debug_ranges")
_BOOT = "import sys;sys.path[:0]=sys.argv[2:];from probes.sources.in_child import main;main(sys.argv[1])"


def command_of(module: str, request: Request) -> list[str]:
    """Command line of the child; it dies with this process, even if that is killed."""
    selection, interval = request.discovery.settings
    task = {
        "module": module,
        "resource_set": request.resource_set.name,
        "metrics": [metric.name for metric in request.resource_set.metrics],
        "interval": request.interval,
        "host": request.facts.name,
        "scope": request.facts.scope,
        "selection": selection._asdict(),
        "discovery_interval": interval,
        "options": dict(request.options),
    }
    lifeline = f"{acquisition.__path__[0]}/lifeline.py"  # by path: its imports are too heavy for a probe
    tied = [sys.executable, "-I", "-S", lifeline, str(int(SIGKILL)), str(os.getpid())]
    return [*tied, sys.executable, *_FLAGS, "-c", _BOOT, json.dumps(task), os.path.dirname(probes.__path__[0])]


class SourceInChild(OneChild):
    """The source ``name``, with ``create`` in ``module``, run in a child."""

    def __init__(self, name: str, module: str, request: Request) -> None:
        child = ToolChild(command_of(module, request), request.report, f"source {name}", dict(os.environ))
        super().__init__(request.resource_set, child, [])
        self.name = name
        self._rejected = 0
        self._problem = ""

    def begin(self) -> None:
        """See ``OneChild``."""
        self._problem = ""  # was that of the previous child

    def take(self, lines: list[bytes], wall: float, monotonic: float) -> Reading | None:
        """See ``OneChild``."""
        newest = None
        for line in lines:
            newest = self._taken(line, wall, monotonic) or newest
        return newest

    def _taken(self, line: bytes, wall: float, monotonic: float) -> Reading | None:
        try:
            found = decode(line, self._set, self._entities)
        except ValueError:
            self._rejected += 1
            return None
        self._child.works()
        if isinstance(found, str):  # it answers, but its library does not
            self._problem = found
            return timed_out(self._set, self._entities, wall, monotonic)
        self._problem = ""
        self._entities = found.entities
        return found

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        problem = self._child.problem or self._problem
        return {**super().account(), "problem": problem, "rejected_lines": self._rejected}
