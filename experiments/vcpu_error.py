"""Error of a guest's vCPU figures: run time, delay and suffering.

    python -m experiments.vcpu_error                                   # 20 pairs of 5 s: four minutes
    python -m experiments.vcpu_error --pairs 20 --seconds 5 --burners 2 --quota 0.3
    python -m experiments.vcpu_error --libvirt --seconds 60            # beside libvirt's vcpu.N.time and .delay

One busy guest (TCG, one vCPU) runs beside processes that are busy too. In each pair it has no CPU limit for some
seconds and then one, in turns that change, so what others do on the machine meets both alike. Without a limit its
suffering is its delay. With one it is delay less throttled time; the difference of the two, in cores, is the error of
that figure, together with the truth that a guest that runs less waits less. ``alone`` is the same without the busy
processes: there all suffering in the limit is error, or other work on the machine. Intervals are those of 95%
(Student's t).

With ``--libvirt`` a guest of libvirtd, which must run, is compared over one window; 0 where both are within 1%.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from acquisition.errors import UnavailableError
from acquisition.model.codes import VALID, name_of
from experiments.harness import outcome
from experiments.harness.intervals import interval
from experiments.processes import needs
from experiments.processes.guest import busy_floppy
from experiments.processes.program import program
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_vms import VmSource

_QEMU = "qemu-system-x86_64"
_NAMES = ("run", "delay", "throttled", "suffering")
_PERIOD = 100_000  #: microseconds
_CGROUPS = Path("/sys/fs/cgroup")
_WITHIN = 0.01
_URI = "qemu:///system"


class Had(NamedTuple):
    """Seconds of a core in a window of ``seconds``."""

    seconds: float
    run: float
    delay: float
    throttled: float
    suffering: float


class Watch:
    """Reads the guest of one process as the probe does, once a second."""

    def __init__(self, pid: int, needed: Collection[str] = _NAMES) -> None:
        self._needed = needed
        facts = HostFacts("here")
        self._pid = str(pid)
        self._source = VmSource(VMS, facts, Discovery(facts, Selection(every=False), 1.0))
        self._columns = [[metric.name for metric in VMS.metrics].index(f"vcpu_{name}_ratio") for name in _NAMES]

    def close(self) -> None:
        """Close the files."""
        self._source.close()

    def over(self, seconds: float) -> Had:
        """Its times in a window of ``seconds``. Raises UnavailableError if a figure is missing."""
        self._tick(first=True)
        sums, began = [0.0] * len(_NAMES), time.monotonic()
        last = began
        while last - began < seconds:
            time.sleep(min(1.0, max(0.0, began + seconds - last)))
            found, now = self._tick(first=False), time.monotonic()
            sums = [total + value * (now - last) for total, value in zip(sums, found, strict=True)]
            last = now
        return Had(last - began, *sums)

    def _tick(self, first: bool) -> list[float]:
        reading = self._source.sample(time.time(), time.monotonic())
        pids = [each.labels["pid"] for each in reading.entities] if reading is not None else []
        if reading is None or self._pid not in pids:
            raise UnavailableError(f"the guest of process {self._pid} is not seen: has it ended?")
        at = pids.index(self._pid) * len(VMS.metrics)
        if not first:  # which counts nothing
            for name, column in zip(_NAMES, self._columns, strict=True):
                if name in self._needed and reading.codes[at + column] != VALID:
                    raise UnavailableError(f"{name} of the guest is {name_of(reading.codes[at + column])}")
        return [reading.values[at + column] for column in self._columns]


@contextmanager
def limited() -> Iterator[Path]:
    """A cgroup that can have a CPU limit, of either version. Raises UnavailableError."""
    base = _CGROUPS / "cpu" if (_CGROUPS / "cpu").is_dir() else _CGROUPS
    path = base / f"shardpulse-vcpu-error-{os.getpid()}"
    try:
        path.mkdir()
        limit(path, None)
    except OSError as error:
        raise UnavailableError(
            f"no cgroup with a CPU limit can be made below {base} (run it as root): {error}"
        ) from error
    try:
        yield path
    finally:
        while (path / "cgroup.procs").read_text():
            time.sleep(0.05)
        path.rmdir()


def limit(cgroup: Path, cores: float | None) -> None:
    """Set its limit; None: none."""
    quota = None if cores is None else round(cores * _PERIOD)
    if (cgroup / "cpu.max").exists():
        (cgroup / "cpu.max").write_text(f"{'max' if quota is None else quota} {_PERIOD}")
    else:
        (cgroup / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))


@contextmanager
def running(command: list[str]) -> Iterator[int]:
    """A process that is gone afterwards; its pid."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@contextmanager
def burners(count: int) -> Iterator[None]:
    """Processes that use all CPU time they get."""
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(running([sys.executable, "-S", "-c", "while True: pass"]))
        yield


def eventually_limited(watch: Watch) -> None:
    """Wait until the limit has been detected, which causes one tick without a figure."""
    for _ in range(30):
        with suppress(UnavailableError):
            if watch.over(1.0).throttled > 0.0:
                return
    raise UnavailableError("the limit of the guest takes nothing from it")


def pairs(watch: Watch, cgroup: Path, count: int, seconds: float, cores: float) -> dict[str, object]:
    """The guest without and with its limit, in turns."""
    found: dict[bool, list[Had]] = {False: [], True: []}
    for number in range(count):
        for capped in (number % 2 == 0, number % 2 != 0):
            limit(cgroup, cores if capped else None)
            watch.over(1.0)  # remains of the other half
            found[capped].append(watch.over(seconds))
    free, capped_ = ([each.suffering / each.seconds for each in found[key]] for key in (False, True))
    errors = [one - other for one, other in zip(capped_, free, strict=True)]
    return {
        "suffering_free": interval(free)._asdict(),
        "suffering_capped": interval(capped_)._asdict(),
        "error_cores": interval(errors)._asdict(),
        "delay_capped": round(fmean(each.delay / each.seconds for each in found[True]), 4),
        "throttled_capped": round(fmean(each.throttled / each.seconds for each in found[True]), 4),
        "run_capped": round(fmean(each.run / each.seconds for each in found[True]), 4),
    }


def guest(directory: Path) -> list[str]:
    """Command line of a busy guest."""
    (directory / "floppy").write_bytes(busy_floppy())
    return [
        _QEMU, "-accel", "tcg", "-name", "guest=vcpu-error,debug-threads=on", "-m", "16", "-display", "none",
        "-nodefaults", "-drive", f"file={directory}/floppy,format=raw,if=floppy,readonly=on",
    ]  # fmt: skip


def measured(options: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Measure both kinds of pairs."""
    with limited() as cgroup, running(guest(directory)) as pid, closing(Watch(pid)) as watch:
        (cgroup / "cgroup.procs").write_text(str(pid))
        limit(cgroup, options.quota)
        eventually_limited(watch)
        counted = options.pairs, options.seconds, options.quota
        found = {"alone": pairs(watch, cgroup, *counted)}
        if options.burners:
            with burners(options.burners):
                found["beside_burners"] = pairs(watch, cgroup, *counted)
        return dict(found)


_DOMAIN = """<domain type='qemu'><name>vcpu-error</name><memory unit='MiB'>16</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type></os><devices><emulator>/usr/bin/qemu-system-x86_64</emulator>
<disk type='file' device='floppy'><driver name='qemu' type='raw'/><source file='{floppy}'/><target dev='fda'/>
<readonly/></disk></devices></domain>"""


def virsh(*arguments: str) -> str:
    """Output of virsh. Raises UnavailableError."""
    done = subprocess.run(["virsh", "-c", _URI, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(f"virsh {arguments[0]}: {done.stderr.strip()} (does libvirtd run?)")
    return done.stdout


def _of_libvirt() -> tuple[float, float]:
    """Seconds of running and waiting of the vCPU, by libvirt."""
    lines = dict(line.strip().partition("=")[::2] for line in virsh("domstats", "vcpu-error", "--vcpu").splitlines())
    return float(lines["vcpu.0.time"]) / 1e9, float(lines["vcpu.0.delay"]) / 1e9


def compared(options: argparse.Namespace, directory: Path) -> dict[str, object]:
    """Our figures and those of libvirt."""
    directory.chmod(0o755)
    (directory / "floppy").write_bytes(busy_floppy())
    (directory / "domain.xml").write_text(_DOMAIN.format(floppy=directory / "floppy"))
    virsh("create", str(directory / "domain.xml"))
    try:
        pid = int(Path("/run/libvirt/qemu/vcpu-error.pid").read_text())
        with burners(options.burners), closing(Watch(pid, _NAMES[:2])) as watch:
            watch.over(2.0)
            before = _of_libvirt()
            ours = watch.over(options.seconds)
            theirs = [after - earlier for after, earlier in zip(_of_libvirt(), before, strict=True)]
    finally:
        virsh("destroy", "vcpu-error")
    off = [abs(one - other) / other for one, other in zip((ours.run, ours.delay), theirs, strict=True)]
    return {
        "ours": ours._asdict(), "libvirt": dict(zip(("run", "delay"), theirs, strict=True)),
        "off": [round(each, 5) for each in off], "passed": max(off) <= _WITHIN,
    }  # fmt: skip


NEEDS = (needs.tool(_QEMU, "qemu-system-x86"),)


@program("vcpu_error")
def main(argv: list[str]) -> int:
    """Measure and print; with libvirt 1 if a figure is off by more than 1%."""
    made = outcome.bare_parser("vcpu_error", __doc__)
    made.add_argument("--pairs", type=int, default=20, metavar="N", help="pairs of each kind, at least 2 (default 20)")
    made.add_argument("--seconds", type=float, default=5.0, metavar="S", help="of each half, or window (default 5)")
    made.add_argument("--burners", type=int, default=os.cpu_count(), metavar="N", help="busy processes (default: CPUs)")
    made.add_argument("--quota", type=float, default=0.3, metavar="CORES", help="the limit (default 0.3)")
    made.add_argument("--libvirt", action="store_true", help="compare with libvirt instead")
    given = made.parse_args(argv)
    if given.pairs < 2:
        made.error("an interval needs two pairs")
    needs.require(*NEEDS, *((needs.tool("virsh", "libvirt-clients"),) if given.libvirt else ()))
    with tempfile.TemporaryDirectory(prefix="shardpulse-") as name:
        found = (compared if given.libvirt else measured)(given, Path(name))
    print(json.dumps(found, indent=2))
    return 0 if found.get("passed", True) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
