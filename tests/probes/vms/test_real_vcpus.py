"""Real guests (TCG): what their vCPUs have had in a CPU limit, hotplug, and their states, through a migration."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from acquisition.model.codes import MISSING, RATE, VALID
from acquisition.model.vm_state import state_of
from experiments.processes.guest import Monitor, busy_floppy
from probes.checks import build_pipeline
from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_vms import VmSource
from tests.support.processes import started
from tests.support.waiting import eventually

pytestmark = pytest.mark.needs("qemu-system-x86_64")
METRICS = [metric.name for metric in VMS.metrics]
RATIOS = [f"vcpu_{name}_ratio" for name in ("run", "delay", "throttled", "suffering")]
CGROUPS = Path("/sys/fs/cgroup/cpu")
Values = dict[str, tuple[float, int]]


class Here:
    """The guests of this machine that the test started."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.directory = directory
        self.stack = stack
        self.labels: dict[str, str] = {}
        self._pids: dict[str, str] = {}
        facts = HostFacts("here")
        self._source = stack.enter_context(closing(VmSource(VMS, facts, Discovery(facts, Selection(every=False), 0.1))))
        self._check = build_pipeline(VMS)
        (directory / "floppy").write_bytes(busy_floppy())

    def guest(self, name: str, *options: str) -> tuple[Monitor, int]:
        """Start one that is busy; its monitor and its pid."""
        path = self.directory / f"{name}.qmp"
        command = [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-m", "16", "-display", "none",
            "-nodefaults", "-drive", f"file={self.directory}/floppy,format=raw,if=floppy,readonly=on",
            "-name", f"guest={name},debug-threads=on", "-qmp", f"unix:{path},server=on,wait=off", *options,
        ]  # fmt: skip
        process = self.stack.enter_context(started(command, stdin=subprocess.DEVNULL))
        self._pids[name] = str(process.pid)
        return self.stack.enter_context(closing(Monitor(path))), process.pid

    def values(self, name: str) -> Values:
        """Those of a guest at the next tick, a short one; empty where it is not seen."""
        time.sleep(0.3)
        reading = self._source.sample(time.time(), time.monotonic())
        if reading is None:
            return {}
        self._check(reading)
        rows = [each.labels["pid"] for each in reading.entities]
        if self._pids[name] not in rows:
            return {}
        row = rows.index(self._pids[name])
        self.labels = reading.entities[row].labels
        cells = slice(row * len(METRICS), (row + 1) * len(METRICS))
        return dict(zip(METRICS, zip(reading.values[cells], reading.codes[cells], strict=True), strict=True))

    def until(self, name: str, condition: Callable[[Values], object]) -> Values:
        """Those of the first tick of which the condition holds."""
        return eventually(lambda: (found := self.values(name)) and condition(found) and found, meanwhile=lambda: None)

    def is_in(self, name: str, state: str) -> Values:
        return self.until(name, lambda found: state_of(found["state"][0]) == state)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Here]:
    with ExitStack() as stack:
        yield Here(tmp_path, stack)


@pytest.fixture
def limited() -> Iterator[Path]:
    """A cgroup (v1) that has a core for a fifth of the time."""
    path = CGROUPS / f"shardpulse-test-{os.getpid()}"
    try:
        path.mkdir()
        (path / "cpu.cfs_quota_us").write_text("20000")
    except OSError as error:
        pytest.skip(f"no cgroup v1 with a CPU limit can be made here (run it as root): {error}")
    yield path
    eventually(lambda: not (path / "cgroup.procs").read_text())
    path.rmdir()


def test_limit_of_a_real_guest_is_no_suffering(limited: Path, here: Here) -> None:
    _, pid = here.guest("capped")
    (limited / "cgroup.procs").write_text(str(pid))
    found = here.until("capped", lambda values: values["vcpu_throttled_ratio"] > (0.1, VALID))
    run, delay, throttled, suffering = (
        found[f"vcpu_{name}_ratio"] for name in ("run", "delay", "throttled", "suffering")
    )
    assert [code for _, code in (run, delay, suffering)] == [VALID] * 3
    assert 0.0 < run[0] < 0.6  # at the quota of one period more, in a short tick
    assert suffering[0] == pytest.approx(max(0.0, delay[0] - throttled[0]))
    assert suffering[0] <= delay[0] - 0.1
    assert "missing_vcpus" not in here.labels


def test_vcpu_that_is_plugged_in_counts_within_two_ticks(here: Here) -> None:
    monitor, _ = here.guest("grows", "-smp", "1,maxcpus=4,sockets=4")
    here.until("grows", lambda found: found["vcpu_run_ratio"][1] == VALID)
    driver = {"driver": "qemu64-x86_64-cpu", "id": "more", "core-id": 0, "thread-id": 0}
    monitor.ask("device_add", **driver, **{"socket-id": 2})
    time.sleep(0.7)  # with the first tick, a second: threads are listed once in one
    seen = [here.values("grows") for _ in range(2)]
    assert seen[1]["vcpu_count"] == (2.0, VALID)
    assert RATE not in {code for values in seen for _, code in values.values()}


def test_states_of_real_guests_that_migrate_and_stop(here: Here) -> None:
    source, pid = here.guest("old")
    target, _ = here.guest("new", "-incoming", "defer")
    here.is_in("new", "incoming")
    assert here.labels["incoming"] == "yes"
    address = f"unix:{here.directory}/migration"
    target.ask("migrate-incoming", uri=address)
    source.ask("migrate", uri=address)
    here.is_in("new", "running")
    assert "incoming" not in here.labels
    assert float(here.labels["received"]) > float(here.labels["started"])
    os.kill(pid, signal.SIGSTOP)
    here.is_in("old", "stopped")
    os.kill(pid, signal.SIGCONT)
    here.is_in("old", "running")


def test_vcpus_that_nothing_tells_from_other_threads_are_missing(here: Here) -> None:
    here.guest("nameless", "-name", "guest=nameless,debug-threads=off")
    found = here.until("nameless", lambda values: values["cpu_ratio"] > (0.1, VALID))
    assert {found[name][1] for name in RATIOS} == {MISSING}
    assert here.labels["missing_vcpus"].startswith("its threads have no names")
