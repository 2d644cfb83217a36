"""Storage throughput: sequential I/O at several record sizes, by fio (fio(1)).

A run lays a file out, writes all of it with each record size, reads it with each, bypassing the page cache (O_DIRECT),
and removes it. It takes minutes, so it is started in a child of the probe (``probes.sources.in_child``) and has
an interval of hours. The file is laid out first: reads of blocks never written would touch no device.

A run that fails completely or partly is one without values (TIMEOUT), with its reason in the probe's account.
"""

from __future__ import annotations

import json
import os
import subprocess
from array import array
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isnan
from typing import Any, NamedTuple

from acquisition.lifeline import tied
from acquisition.model.codes import MISSING, NAN, VALID
from acquisition.model.identity import entity_id, host_id
from acquisition.model.metric import ResourceSet
from acquisition.wire.table import Entity
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sampling.schedule import MARGIN
from probes.sources import Polled, Request
from probes.tools.tool_child import find_tool

_KEPT_FREE = 0.05  #: part of the file system to leave free, beside the file
_BLOCK = 512  #: bytes of st_blocks (stat(2))
_LEAST_SECONDS = 60.0  #: minimum time limit for a run
_LAYOUT_BYTES = 1 << 20  #: record size in which the file is laid out
#: Milliseconds of an interval whose throughput is a sample of the jitter, for long points, and for short ones: shorter
#: ones than a stall of the device would leave the stalls out.
_LONG, _SHORT = 500.0, 100.0
_INTERVALS = 20
_LONGEST = 200  #: characters of fio's messages
_NANOSECOND = 1e-9
_TOO_LONG = (
    "fio was stopped after {:.0f} s, a twentieth of interval_seconds: lower size_bytes or seconds_per_point "
    "of [probe.storage], or raise interval_seconds"
)
_NO_ROOM = (
    "{} has {} bytes available, too few for a file of {} ([probe.storage] size_bytes): free space, or lower size_bytes"
)


class Refused(Exception):
    """Why there is no run now, with the remedy."""


class Point(NamedTuple):
    """One measurement: ``write`` or ``read``, with records of this number of bytes."""

    operation: str
    record_bytes: int

    @property
    def name(self) -> str:
        """Such as ``write-64k`` or ``read-16m``; in bytes if not a multiple of a KiB."""
        size, unit = self.record_bytes, ""
        for larger in "kmg":
            if size % 1024:
                break
            size, unit = size // 1024, larger
        return f"{self.operation}-{size}{unit}"


class Options(NamedTuple):
    """Options of a run, from [probe.storage]; ``phase`` is in seconds after the start of an interval."""

    path: str
    size_bytes: int
    record_sizes: tuple[int, ...]
    seconds_per_point: float
    bytes_per_second: int
    idle: bool
    phase: float | None = None

    @property
    def points(self) -> list[Point]:
        """All of them, in the order of measurement."""
        return [Point(operation, size) for operation in ("write", "read") for size in self.record_sizes]


def create(request: Request) -> StorageSource:
    """See ``probes.sources``."""
    return StorageSource(request.resource_set, request.facts, Options(**request.options), request.interval)


class StorageSource(Polled):
    """One run per ``sample``, which blocks until its end. ``problem``: why there would be none now."""

    name = "fio"

    def __init__(self, resource_set: ResourceSet, facts: HostFacts, options: Options, interval: float) -> None:
        self._set, self._facts, self._options = resource_set, facts, options
        self._file = f"{options.path}/.shardpulse-storage-{host_id(facts.name):016x}"
        self._most_seconds = max(_LEAST_SECONDS, MARGIN * interval)  # after that its tick has been given up
        self._entities = [_entity(facts.name, options, point) for point in options.points]

    @property
    def problem(self) -> str:
        """Why there would be no run now; "" if there would be one."""
        return obstacle(self._options, self._file)

    def sample(self, wall: float, monotonic: float) -> Reading:
        """Run fio. Raises Refused."""
        if problem := self.problem:
            raise Refused(problem)
        found = parse(self._run(), self._options.points)
        cells = array("d", [row[metric.name] for row in found for metric in self._set.metrics])
        codes = bytearray(MISSING if isnan(value) else VALID for value in cells)
        return Reading(self._set, self._entities, cells, codes, wall, monotonic, 0.0)

    def _run(self) -> str:
        command = [find_tool("fio") or "fio", *arguments(self._options, self._file)]
        try:
            done = subprocess.run(
                tied(command), capture_output=True, text=True, timeout=self._most_seconds, check=False
            )
        except subprocess.TimeoutExpired:
            raise Refused(_TOO_LONG.format(self._most_seconds)) from None
        finally:
            with suppress(FileNotFoundError):
                os.unlink(self._file)
        if done.returncode:
            said = (done.stderr or done.stdout).strip().partition("\n")[0]
            raise Refused(f"fio exited with {done.returncode}: {said[:_LONGEST]}")
        return done.stdout

    def account(self) -> dict[str, object]:
        """See ``Source``."""
        return {}

    def close(self) -> None:
        """See ``Source``."""


def obstacle(options: Options, file: str) -> str:
    """Why fio cannot measure in a directory, with the remedy; "" if it can. ``file`` counts as free: it
    was left by a killed run."""
    if find_tool("fio") is None:
        return "fio is not installed (Debian: apt install fio)"
    try:
        there = os.statvfs(options.path)
        if not os.access(options.path, os.W_OK | os.X_OK):
            return f"cannot write to {options.path}: grant the probe's user access"
        own = os.stat(file).st_blocks * _BLOCK if os.path.exists(file) else 0
    except OSError as error:
        return f"cannot use {options.path} ([probe.storage] path): {error.strerror}"
    free = there.f_bavail * there.f_frsize + own - int(_KEPT_FREE * there.f_blocks * there.f_frsize)
    if free < options.size_bytes:
        return _NO_ROOM.format(options.path, max(0, free), options.size_bytes)
    return ""


def arguments(options: Options, file: str) -> list[str]:
    """Arguments of fio: the file is laid out, then each point is one job, one after the other."""
    every = ["--output-format=json", "--ioengine=psync", "--direct=1", "--stonewall", f"--filename={file}"]
    every += [f"--size={options.size_bytes}", *(["--prioclass=3"] if options.idle else [])]
    every += [f"--rate={options.bytes_per_second}"] if options.bytes_per_second else []
    made = [*every, "--name=layout", "--rw=write", f"--bs={_LAYOUT_BYTES}"]
    averaged = max(_SHORT, min(_LONG, 1000 * options.seconds_per_point / _INTERVALS))
    for point in options.points:
        made += [f"--name={point.name}", f"--rw={point.operation}", f"--bs={point.record_bytes}"]
        made += [f"--runtime={options.seconds_per_point * 1000:.0f}ms", f"--bwavgtime={averaged:.0f}"]
    return made


def parse(text: str, points: Sequence[Point]) -> list[dict[str, float]]:
    """Figures in fio's JSON for each point, by metric, NaN if missing. Raises Refused for a failed
    or missing job."""
    try:
        jobs = {job["jobname"]: job for job in json.loads(text[text.index("{") :])["jobs"]}
        return [_figures(jobs[point.name], point) for point in points]
    except (ValueError, TypeError, KeyError) as error:
        raise Refused(f"unreadable result of fio: {error!r}") from error


def _figures(job: Mapping[str, Any], point: Point) -> dict[str, float]:
    if job["error"]:
        raise Refused(f"{point.name}: {os.strerror(job['error'])}")
    done = job[point.operation]
    enough = done["bw_samples"] > 1 and done["bw_mean"] > 0
    return {
        "throughput_bytes_per_second": float(done["bw_bytes"]),
        "latency_seconds": done["lat_ns"]["mean"] * _NANOSECOND,
        "latency_p99_seconds": done["clat_ns"]["percentile"]["99.000000"] * _NANOSECOND,
        "jitter_ratio": done["bw_dev"] / done["bw_mean"] if enough else NAN,
    }


def _entity(host: str, options: Options, point: Point) -> Entity:
    """A point of another file, or of another size, is another entity: their past is not comparable."""
    stable = f"{host} {options.path} {options.size_bytes} {point.name}"
    labels = {"operation": point.operation, "record_bytes": str(point.record_bytes), "path": options.path}
    return Entity(entity_id("storage", stable, ""), "storage", stable, "", point.name, labels)
