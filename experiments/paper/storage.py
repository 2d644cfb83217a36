"""Storage figure: sequential throughput over record size, plain and slowed.

It is measured as the resource set ``storage`` does: of a device as it is and of the same one
slowed, side by side (360is, "XenServer Creedence Alpha 2, Disk Performance", 2014).
"""

from __future__ import annotations

import statistics
import subprocess
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from acquisition.config.probe import RECORD_SIZES
from acquisition.errors import UnavailableError
from experiments.paper.figure import Extent, Figure, Finding, Point, Records, Row
from experiments.processes import needs, throttle
from experiments.processes.throttle import Throttle
from probes.sources import storage
from probes.sources.storage import Options, Refused

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

PLAIN, SLOWED = "device", "slowed device"
LIMIT = 64 << 20  #: bytes per second of the slowed one
_MIB = 1 << 20
_SIZES = {False: 1024 * _MIB, True: 256 * _MIB}  #: of the file, by whether the run is quick
_PART = 6.0  #: a size is measured for this part of a window, written and read
_QUANTITIES = {"throughput": "throughput_bytes_per_second", "jitter": "jitter_ratio"}


def run(options: Options, slowed: Throttle | None = None) -> list[dict[str, float]]:
    """The figures of each point of a run of fio, as a member of a cgroup. Raises UnavailableError."""
    file = Path(options.path) / ".shardpulse-storage"
    command = ["fio", *storage.arguments(options, str(file))]
    try:
        if problem := storage.obstacle(options, str(file)):
            raise UnavailableError(problem)
        done = subprocess.run(
            slowed.command(command) if slowed else command, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise UnavailableError(f"fio exited with {done.returncode}: {done.stderr.strip()[:200]}")
        return storage.parse(done.stdout, options.points)
    except Refused as error:
        raise UnavailableError(str(error)) from error
    finally:
        file.unlink(missing_ok=True)


def _measure(system: str, size: int) -> Callable[[Extent, Path], Sequence[Row]]:
    def measure(extent: Extent, directory: Path) -> Sequence[Row]:
        options = Options(str(directory), _SIZES[extent.quick], (size,), extent.seconds / _PART, 0, False)
        if system == SLOWED and (problem := throttle.lacking(directory)):
            raise UnavailableError(problem)
        with Throttle(directory, LIMIT) if system == SLOWED else nullcontext() as slowed:
            found = run(options, slowed)
        return [
            Row(system, point.operation, quantity, "bytes/s" if quantity == "throughput" else "ratio of the mean",
                extent.seconds / _PART, figures[name])
            for point, figures in zip(options.points, found, strict=True)
            for quantity, name in _QUANTITIES.items()
        ]  # fmt: skip

    return measure


def _points(extent: Extent) -> Sequence[Point]:
    sizes = extent.some(RECORD_SIZES, RECORD_SIZES[::4])
    return [
        Point(f"storage-{system.split()[0]}-{size >> 10}k", {"record_bytes": float(size)}, _measure(system, size),
              2.0 + _SIZES[extent.quick] / LIMIT, 2 / _PART)
        for system in (PLAIN, SLOWED) for size in sizes
    ]  # fmt: skip


def _draw(plot: Plot, records: Records) -> None:
    for axis, operation in zip(plot.subplots(1, 2, sharex=True), ("write", "read"), strict=True):
        for system in (PLAIN, SLOWED):
            speed = records.of(system, operation, "throughput").over("record_bytes")
            jitter = records.of(system, operation, "jitter").over("record_bytes")
            if speed:
                values = [value / 1e6 for (value,) in speed.values()]
                bars = [value * jitter[size][0] for value, size in zip(values, speed, strict=True)]
                axis.errorbar([size / 1024 for size in speed], values, bars, marker="o", capsize=3, label=system)
        axis.set_xscale("log", base=2)
        axis.set_ylim(bottom=0)
        axis.set_title(f"sequential {operation}")
        axis.set_xlabel("record size (KiB)")
        axis.set_ylabel("MB/s, with the deviation over intervals")
        axis.legend(fontsize=8)


def _speeds(records: Records, system: str, operation: str) -> list[float]:
    return [value / 1e6 for value in records.of(system, operation, "throughput").values]


def _findings(records: Records) -> Sequence[Finding]:
    found = []
    for system in (PLAIN, SLOWED):
        for operation in ("write", "read"):
            speeds = _speeds(records, system, operation)
            shown = f"{min(speeds):.0f} to {max(speeds):.0f}" if speeds else "not measured"
            found.append(Finding(f"sequential {operation} over all record sizes, {system} (MB/s)", "", "", shown))
    return found


def _says(records: Records) -> tuple[str, str]:
    plain, slowed = (_speeds(records, system, "write") + _speeds(records, system, "read") for system in (PLAIN, SLOWED))
    if not plain or not slowed:
        return "One of the two configurations was not measured.", ""
    return (
        f"The device itself moves {statistics.median(plain):.0f} MB/s in the median over operations and record sizes, "
        f"and {statistics.median(slowed):.0f} MB/s where its cgroup may move {LIMIT / 1e6:.0f}.",
        "Larger records pay the latency of a request less often, until the device or the limit is what counts; bars "
        "are the deviation between intervals within a point.",
    )


STORAGE = Figure(
    "storage", "Sequential throughput over record size", "", _points, _draw, _findings, _says,
    (needs.tool("fio", "fio"),), (12.0, 5.0),
)  # fmt: skip
