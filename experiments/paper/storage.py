"""Storage figure: throughput over record size, plain, slowed and in a guest.

It is measured as by the resource set ``storage``: for a device as it is, for the same one slowed, and for a virtio disk
on it, side by side (360is, "XenServer Creedence Alpha 2, Disk Performance", 2014).
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from acquisition.config.probe import RECORD_SIZES
from acquisition.errors import UnavailableError
from experiments.paper.figure import Extent, Figure, Finding, Point, Records, Row
from experiments.processes import linux_guest, needs, throttle
from experiments.processes.throttle import Throttle
from probes.sources import storage
from probes.sources.storage import Options, Refused

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

PLAIN, SLOWED, GUEST = SERIES = "device", "slowed device", "guest"
LIMIT = 64 << 20  #: bytes per second of the slowed one
_MIB = 1 << 20
_SIZES = {False: 1024 * _MIB, True: 256 * _MIB}  #: of the file, by whether the run is quick
_BOOT = 15.0  #: seconds for the start and the end of a guest, a quarter of the time allowed
_LEAST_SPEED = 8 * _MIB  #: bytes per second of the slowest guest that is waited for
_EMULATED = "emulated"  #: parameter of the points of a guest: 1 without KVM
_PART = 6.0  #: divisor of a window for each size, written and read
_QUANTITIES = {"throughput": "throughput_bytes_per_second", "jitter": "jitter_ratio"}


def run(options: Options, slowed: Throttle | None = None) -> list[dict[str, float]]:
    """The figures of each point of a run of fio, as a member of a cgroup. Raises UnavailableError."""
    return _figures(options, lambda file: _run_here(["fio", *storage.arguments(options, str(file))], slowed))


def run_in_guest(options: Options) -> list[dict[str, float]]:
    """The same in a guest, for a disk backed by a file in the same directory. Raises UnavailableError."""
    points = len(options.points) * options.seconds_per_point
    seconds = 4 * _BOOT + 2 * points + options.size_bytes / _LEAST_SPEED

    def run_there(file: Path) -> str:
        with file.open("wb") as disk:
            disk.truncate(options.size_bytes)
        return linux_guest.run(["fio", *storage.arguments(options, linux_guest.DISK)], file, seconds)

    return _figures(options, run_there)


def _run_here(command: list[str], slowed: Throttle | None) -> str:
    command = slowed.command(command) if slowed else command
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"fio exited with {done.returncode}: {done.stderr.strip()[:200]}")
    return done.stdout


def _figures(options: Options, run_fio: Callable[[Path], str]) -> list[dict[str, float]]:
    file = Path(options.path) / ".shardpulse-storage"
    try:
        if problem := storage.obstacle(options, str(file)):
            raise UnavailableError(problem)
        return storage.parse(run_fio(file), options.points)
    except Refused as error:
        raise UnavailableError(str(error)) from error
    finally:
        file.unlink(missing_ok=True)


def _lacking(system: str) -> str:
    """Why a series cannot be measured on this machine; "" if it can."""
    if system == SLOWED:
        return throttle.lacking(Path(tempfile.gettempdir()))
    return linux_guest.lacking() if system == GUEST else ""


def _measure(system: str, size: int) -> Callable[[Extent, Path], Sequence[Row]]:
    def measure(extent: Extent, directory: Path) -> Sequence[Row]:
        options = Options(str(directory), _SIZES[extent.quick], (size,), extent.seconds / _PART, 0, False)
        with Throttle(directory, LIMIT) if system == SLOWED else nullcontext() as slowed:
            found = run_in_guest(options) if system == GUEST else run(options, slowed)
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
        Point(f"storage-{system.split()[0]}-{size >> 10}k", _parameters(system, size), _measure(system, size),
              2.0 + _SIZES[extent.quick] / LIMIT + (_BOOT if system == GUEST else 0.0), 2 / _PART)
        for system in SERIES if not _lacking(system) for size in sizes
    ]  # fmt: skip


def _parameters(system: str, size: int) -> dict[str, float]:
    emulated = {_EMULATED: float(linux_guest.accelerator() == "tcg")} if system == GUEST else {}
    return {"record_bytes": float(size), **emulated}


def _draw(plot: Plot, records: Records) -> None:
    for axis, operation in zip(plot.subplots(1, 2, sharex=True), ("write", "read"), strict=True):
        for system in SERIES:
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
    for system in SERIES:
        for operation in ("write", "read"):
            speeds = _speeds(records, system, operation)
            shown = f"{min(speeds):.0f} to {max(speeds):.0f}" if speeds else "not measured"
            found.append(Finding(f"sequential {operation} over all record sizes, {system} (MB/s)", "", "", shown))
        if reason := _lacking(system):
            found[-2:] = [Finding(f"sequential write and read, {system}", "", "", f"skipped: {reason}")]
    ratios = {operation: _relative(records, operation) for operation in ("write", "read")}
    return found + [
        Finding(f"sequential {operation}, {_guest(records)} relative to {PLAIN} by record size", "", "", shown)
        for operation, shown in ratios.items() if shown
    ]  # fmt: skip


def _relative(records: Records, operation: str) -> str:
    plain, guest = (records.of(system, operation, "throughput").over("record_bytes") for system in (PLAIN, GUEST))
    return ", ".join(f"{size / 1024:.0f} KiB {guest[size][0] / plain[size][0]:.2f}" for size in plain if size in guest)


def _guest(records: Records) -> str:
    return "guest that TCG emulates" if records.of(GUEST, emulated=1.0).all else "guest under KVM"


def _says(records: Records) -> tuple[str, str]:
    speeds = {system: records.of(system, quantity="throughput").values for system in SERIES}
    medians = {system: statistics.median(values) / 1e6 for system, values in speeds.items() if values}
    if PLAIN not in medians:
        return "The device was not measured.", ""
    configured = {
        PLAIN: "",
        SLOWED: f" where its cgroup may move {LIMIT / 1e6:.0f}",
        GUEST: f" in a {_guest(records)}",
    }
    said = [f"{median:.0f} MB/s{configured[system]}" for system, median in medians.items()]
    return (
        f"In the median over operations and record sizes the device moves {', '.join(said)}.",
        "Larger records pay the latency of a request less often, which in a guest includes its kernel and qemu, until "
        "the device or the limit is what counts; bars are the deviation between intervals within a point.",
    )


STORAGE = Figure(
    "storage", "Sequential throughput over record size", "", _points, _draw, _findings, _says,
    (needs.tool("fio", "fio"),), (12.0, 5.0),
)  # fmt: skip
