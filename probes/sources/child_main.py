"""The child of ``probes.sources.in_child``: samples one source at absolute deadlines and writes a line per tick."""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module

from acquisition.model.identity import host_id
from acquisition.stderr import speaker
from acquisition.wire.table import Entity
from probes.discovery import Discovery, Selection
from probes.host_facts import HostFacts
from probes.metrics import RESOURCE_SETS
from probes.schedule import Schedule, phase_of
from probes.sources import Request, Source
from probes.sources.child_protocol import encode, encode_problem


def main(text: str) -> None:
    """Run until the probe is gone; ``text`` is the task as JSON (``probes.sources.in_child.command_of``)."""
    out = os.dup(1)
    os.dup2(2, 1)  # what a library prints is not for the probe
    task = json.loads(text)
    facts = HostFacts(task["host"])
    discovery = Discovery(facts, Selection.of(task["selection"]), task["discovery_interval"])
    resource_set = RESOURCE_SETS[task["resource_set"]].select(tuple(task["metrics"]))
    interval = task["interval"]
    try:
        source = import_module(task["module"]).create(
            Request(resource_set, interval, facts, discovery, speaker("probe"))
        )
    except ImportError as error:
        sys.exit(f"shardpulse probe: {task['module']} cannot be imported: {error}")
    if source is None:
        sys.exit(f"shardpulse probe: {task['module']} cannot work here")
    try:
        _run(source, Schedule(interval, phase_of(host_id(facts.name), interval), time.time(), time.monotonic()), out)
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(0)


def _run(source: Source, schedule: Schedule, out: int) -> None:
    sent: list[Entity] | None = None
    while True:
        time.sleep(max(0.0, schedule.deadline - time.monotonic()))
        schedule.begin(time.time(), time.monotonic())
        try:
            reading = source.sample(time.time(), time.monotonic())
        except Exception as error:  # of a library, which may fail in any way
            _write(out, encode_problem(f"{type(error).__name__}: {error}"))
            continue
        if reading is not None:
            _write(out, encode(reading, reading.entities is not sent))
            sent = reading.entities


def _write(out: int, data: bytes) -> None:
    while data:
        data = data[os.write(out, data) :]
