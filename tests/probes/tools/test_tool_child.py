"""Tool children: read as they print, restarted with back-off, gone with the probe; vmstat and pidstat for real."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from acquisition.model.codes import TIMEOUT, UNREADABLE, VALID
from probes.metrics import HOST, PROCESSES
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources import Request, Source, create, pidstat_child
from probes.sources.pidstat_child import PidstatSource
from probes.sources.procfs_host import HostSource
from probes.sources.procfs_processes import ProcessSource
from probes.sources.vmstat_child import VmstatSource
from probes.tools.tool_child import PATIENCE, START_SECONDS, ToolChild, find_tool
from tests.support import ROOT
from tests.support.processes import started
from tests.support.waiting import eventually

PATIENT = 10.0
LONG = str(7_000_000 + os.getpid())  #: seconds that a child sleeps whom no other test finds by its command line

needs_tools = pytest.mark.needs("vmstat", "pidstat")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def shell(script: str, reports: list[str]) -> ToolChild:
    return ToolChild(["/bin/sh", "-c", script], reports.append)


def collect(child: ToolChild, condition: Callable[[list[bytes]], bool], now: float) -> list[bytes]:
    lines: list[bytes] = []

    def enough() -> bool:
        lines.extend(child.lines(now))
        return condition(lines)

    eventually(enough)
    return lines


def test_lines_arrive_whole_and_the_rest_waits() -> None:
    child = shell("printf 'one\\ntwo'; sleep 0.1; printf 'half\\n'; sleep 60", [])
    assert child.start(0.0)
    assert collect(child, lambda lines: len(lines) == 2, 0.0) == [b"one", b"twohalf"]
    pid = child.pid
    child.close()
    eventually(lambda: gone(pid))


def test_a_tool_that_ends_is_started_again_with_back_off() -> None:
    reports: list[str] = []
    child = shell("exit 3", reports)
    pauses = []
    now = 0.0

    def ended(now: float) -> bool:
        child.lines(now)
        return child.pid == 0

    for _ in range(8):
        assert child.start(now)
        eventually(partial(ended, now))
        pauses.append(child.wake_at() - now)
        assert not child.start(now + pauses[-1] - 0.001)
        now = child.wake_at()
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert child.starts == 8
    assert len(reports) == 8
    child.close()


def test_a_program_that_cannot_be_started_is_reported() -> None:
    reports: list[str] = []
    child = ToolChild(["/nonexistent/tool"], reports.append)
    assert not child.start(0.0)
    assert "No such file" in reports[0]
    assert child.wake_at() == 1.0
    child.close()


def test_a_line_without_an_end_does_not_fill_the_memory() -> None:
    child = shell("head -c 5000000 /dev/zero | tr '\\0' x; sleep 60", [])
    child.start(0.0)
    lines = collect(child, lambda lines: len(lines) >= 3, 0.0)
    assert max(map(len, lines)) < 1 << 20
    child.close()


def test_flooding_tool_is_killed_and_restarted_with_backoff() -> None:
    reports: list[str] = []
    child = shell("exec yes 'no sample'", reports)
    for now in (0.0, 1.0, 3.0):
        assert child.start(now)
        pid, most = child.pid, 0
        while child.pid:
            select.select([child.fileno()], [], [], PATIENT)
            most = max(most, sum(map(len, child.lines(now))))
        assert most < 1 << 20
        eventually(partial(gone, pid))
    assert [line.rpartition(" in ")[2] for line in reports] == ["1 s", "2 s", "4 s"]
    assert all("output exceeds the size of any sample" in line for line in reports)
    child.close()


def test_samples_are_no_flood() -> None:
    child = shell("exec yes sample", [])
    child.start(0.0)
    for _ in range(100):
        select.select([child.fileno()], [], [], PATIENT)
        child.lines(0.0)
        child.works()
    assert child.pid
    child.close()


def test_a_stopped_tool_can_be_restarted() -> None:
    child = shell("echo up; exec sleep 60", [])
    child.start(0.0)
    collect(child, lambda lines: lines == [b"up"], 0.0)
    pid = child.pid
    os.kill(pid, signal.SIGSTOP)
    child.restart(5.0, "does not answer")
    eventually(lambda: gone(pid))
    assert child.wake_at() == 6.0
    assert child.start(6.0)
    child.close()


def test_a_silent_tool_is_replaced_but_not_while_it_starts() -> None:
    reports: list[str] = []
    child = shell("exec sleep 60", reports)
    child.start(0.0)
    for quarter in range(1, 4 * int(START_SECONDS)):
        child.missed(quarter / 4)
    assert child.pid
    child.works()
    for _ in range(PATIENCE):
        assert child.pid
        child.missed(START_SECONDS - 0.1)
    assert reports == ["sh does not answer; restarting in 1 s"]
    for _ in range(PATIENCE):
        child.missed(START_SECONDS)  # while none runs
    assert child.start(START_SECONDS + 1.0)
    child.missed(START_SECONDS + 1.1)
    assert child.pid, "silence counts from its start"
    for _ in range(PATIENCE):
        child.missed(2 * START_SECONDS + 1.0)
    assert not child.pid, "one that never answers is replaced as well"
    child.close()


PARENT = """
import sys, time
from probes.tools.tool_child import ToolChild
child = ToolChild(sys.argv[1:], print)
child.start(0.0)
print(child.pid, flush=True)
time.sleep(60)
"""


@needs_tools
@pytest.mark.parametrize("tool", [["vmstat", "-n", "1"], ["pidstat", "-h", "-u", "-p", "ALL", "1"]])
def test_a_killed_probe_leaves_no_tool_behind(tool: list[str]) -> None:
    command = [str(find_tool(tool[0])), *tool[1:]]
    with started(
        [sys.executable, "-c", PARENT, *command],
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)
        parent.kill()
    eventually(lambda: gone(pid))


def request(resource_set: str, interval: float = 1.0, selection: Selection | None = None) -> tuple[Request, list[str]]:
    reports: list[str] = []
    facts = HostFacts("here")
    chosen = selection or Selection(pids=(os.getpid(),))
    return Request(
        {"host": HOST, "processes": PROCESSES}[resource_set],
        interval,
        facts,
        Discovery(facts, chosen, 0.2),
        reports.append,
    ), reports


def run(source: Source, seconds: float, count: int = 1 << 30) -> list[Reading]:
    """What a source gives within ``seconds``, at most ``count``, waited for as the probe does."""
    readings: list[Reading] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(readings) < count:
        poll = select.poll()
        for number in source.filenos():
            poll.register(number, select.POLLIN)
        wait = min(source.wake_at(), end) - time.monotonic()
        ready = [number for number, _ in poll.poll(max(0.0, wait) * 1000)]
        reading = source.service(time.time(), time.monotonic(), ready)
        if reading is not None:
            readings.append(reading)
    return readings


@needs_tools
def test_vmstat_skips_its_first_line_and_proc_gives_the_rest() -> None:
    made, reports = request("host")
    source = create("vmstat", made)
    assert isinstance(source, VmstatSource)
    started = time.monotonic()
    first, second = run(source, PATIENT, 2)
    assert first.monotonic - started > 0.9
    found = dict(
        zip([metric.name for metric in HOST.metrics], zip(second.values, second.codes, strict=True), strict=True)
    )
    for name in ("cpu_idle_ratio", "interrupts_per_second", "memory_total_bytes", "network_receive_bytes_per_second"):
        assert found[name][1] == VALID, name
    assert second.dt == pytest.approx(1.0, abs=0.2)
    assert not reports
    source.close()


def memory_free() -> float:
    """MemFree of this moment, in bytes."""
    text = Path("/proc/meminfo").read_text()
    return float(text.partition("MemFree:")[2].split()[0]) * 1024


@needs_tools
def test_memory_is_that_of_now_whatever_vmstat_repeats() -> None:
    made, _ = request("host")
    source = create("vmstat", made)
    column = [metric.name for metric in HOST.metrics].index("memory_free_bytes")
    before = run(source, PATIENT, 1)[0].values[column]
    taken = []
    while abs(memory_free() - before) < 128 << 20:  # others take and give back memory meanwhile
        taken.append(bytearray(os.urandom(1 << 20)) * 64)
        assert len(taken) < 32
    for _ in range(5):
        if abs(run(source, PATIENT, 1)[0].values[column] - memory_free()) < 48 << 20:
            break
    else:
        pytest.fail(f"free memory stays behind the kernel's {memory_free()}")
    source.close()


@needs_tools
def test_vmstat_that_is_killed_starts_again() -> None:
    made, reports = request("host")
    source = create("vmstat", made)
    assert isinstance(source, VmstatSource)
    run(source, PATIENT, 1)
    os.kill(source._child.pid, signal.SIGKILL)
    assert run(source, PATIENT, 1)
    assert "killed by signal 9" in reports[0] or "closed its output" in reports[0]  # it may not be dead yet
    assert source.account()["starts"] == 2
    source.close()


@needs_tools
def test_a_hung_vmstat_times_out_and_is_replaced() -> None:
    made, reports = request("host")
    source = create("vmstat", made)
    assert isinstance(source, VmstatSource)
    run(source, PATIENT, 1)
    hung = source._child.pid
    os.kill(hung, signal.SIGSTOP)
    for tick in range(PATIENCE):
        reading = source.timed_out(tick, tick)
        assert set(reading.codes) == {TIMEOUT}
        assert len(reading.codes) == len(HOST.metrics)
    eventually(lambda: gone(hung))
    assert "does not answer" in reports[0]
    assert run(source, PATIENT, 1)
    source.close()


@needs_tools
def test_pidstat_gives_the_selected_processes() -> None:
    made, _ = request("processes", selection=Selection(pids=(os.getpid(), 1)))
    source = create("pidstat", made)
    assert isinstance(source, PidstatSource)
    [reading] = run(source, PATIENT, 1)
    assert {entity.labels["pid"] for entity in reading.entities} == {"1", str(os.getpid())}
    assert len(reading.codes) == 2 * len(PROCESSES.metrics)
    mine = next(i for i, entity in enumerate(reading.entities) if entity.labels["pid"] == str(os.getpid()))
    assert reading.values[mine * 16 + 8] > 1e6  # resident
    source.close()


@pytest.mark.parametrize("printed", ["yes garbage", "cat /dev/urandom", "yes '# Time UID PID %usr Command'"])
def test_silent_pidstat_keeps_its_processes_visible(
    printed: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "pidstat"
    tool.write_text(f"#!/bin/sh\nexec {printed}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    made, reports = request("processes", selection=Selection(pids=(os.getpid(),)))
    source = create("pidstat", made)
    assert isinstance(source, PidstatSource)
    assert not source.timed_out(time.time(), time.monotonic()).entities  # it may be at its first sample

    def started_again() -> bool:
        assert run(source, 0.1) == []
        return source.account()["starts"] == 2

    eventually(started_again, seconds=60.0)
    reading = source.timed_out(time.time(), time.monotonic())
    assert [entity.labels["pid"] for entity in reading.entities] == [str(os.getpid())]
    assert set(reading.codes) == {TIMEOUT}
    assert "output exceeds the size of any sample" in reports[0]
    source.close()


@needs_tools
def test_new_processes_are_taken_over_without_a_lost_tick() -> None:
    made, _ = request("processes", selection=Selection(commands=(f"sleep {LONG}",)))
    source = create("pidstat", made)
    assert isinstance(source, PidstatSource)
    with started(["sleep", LONG]) as first:
        assert len(run(source, PATIENT, 1)[0].entities) == 1
        with started(["sleep", LONG]) as second:
            readings = run(source, 4.5)
            first.kill()
            first.wait()
            readings += run(source, 2.5)
            second.kill()
    assert [len(reading.entities) for reading in readings][-1] == 1
    assert 2 in [len(reading.entities) for reading in readings]
    times = [reading.monotonic for reading in readings]
    assert max(b - a for a, b in pairwise(times)) < 1.9
    assert source.account()["starts"] == 2
    source.close()


#: The real tool, what it prints edited by sed.
ODD = """#!/bin/sh
{tool} "$@" | sed -u '{edit}'
"""


def odd_tool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str, edit: str) -> None:
    """Put a tool first on PATH that prints what the real one does, edited by sed."""
    tool = tmp_path / name
    tool.write_text(ODD.format(tool=find_tool(name), edit=edit))
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")


@needs_tools
@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (r"s/^\\([0-9:]* *\\)[0-9]*/\\1-1294967296/", VALID),  # a user id of 2^31 and above
        (r"s/  python[^ ]*$/  /", VALID),  # no name
        (r"/ {pid} /s/\(  *[^ ]*\)\{3\}$//", UNREADABLE),
    ],
)
def test_one_odd_row_of_pidstat_costs_only_its_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, edit: str, code: int
) -> None:
    odd_tool(monkeypatch, tmp_path, "pidstat", edit.replace("{pid}", str(os.getpid())))
    made, reports = request("processes", selection=Selection(pids=(os.getpid(), 1)))
    source = create("pidstat", made)
    for reading in run(source, PATIENT, 3):
        width = len(PROCESSES.metrics)
        codes = {entity.labels["pid"]: reading.codes[row * width + 8] for row, entity in enumerate(reading.entities)}
        assert codes == {"1": VALID, str(os.getpid()): code}
    assert source.account()["starts"] == 1
    assert reports == []
    source.close()


@needs_tools
def test_an_odd_row_of_vmstat_leaves_what_proc_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    odd_tool(monkeypatch, tmp_path, "vmstat", "5,6s/.*/odd/")
    made, reports = request("host")
    source = create("vmstat", made)
    names = [metric.name for metric in HOST.metrics]
    idle, memory = names.index("cpu_idle_ratio"), names.index("memory_total_bytes")
    readings = run(source, PATIENT, 4)
    assert [reading.codes[idle] for reading in readings] == [VALID, UNREADABLE, UNREADABLE, VALID]
    assert {reading.codes[memory] for reading in readings} == {VALID}
    assert source.account()["rejected_lines"] == 2
    assert reports == []
    source.close()


#: The real pidstat, whose 3rd tick pauses after its 3rd row, or lacks what follows it.
HICCUP = """#!{python}
import os, subprocess, sys, time
child = subprocess.Popen([{tool!r}, *sys.argv[1:]], stdout=subprocess.PIPE)
tick = rows = 0
for line in child.stdout:
    tick, rows = (tick + 1, 0) if line.startswith(b"#") else (tick, rows + 1)
    if tick == 3 and rows == 4 and {seconds}:
        time.sleep({seconds})
    if tick != 3 or rows < 4 or {seconds}:
        try:
            os.write(1, line)
        except BrokenPipeError:
            child.kill()
            break
"""


@pytest.mark.few
@needs_tools
def test_a_hiccup_in_the_middle_of_a_tick_loses_no_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(pidstat_child, "_PART", 0.5)  # what is waited for rows: a busy machine makes pauses longer
    path = os.environ["PATH"]
    sources: dict[float, tuple[Source, list[str]]] = {}
    for seconds in (0.15, 0.8, 0):
        tool = tmp_path / str(seconds) / "pidstat"
        tool.parent.mkdir()
        tool.write_text(HICCUP.format(python=sys.executable, tool=find_tool("pidstat"), seconds=seconds))
        tool.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tool.parent}:{path}")
        made, reports = request("processes", selection=Selection(commands=(f"^sleep {LONG}$",)))
        sources[seconds] = create("pidstat", made), reports
        monkeypatch.setenv("PATH", path)
    sleepers = [subprocess.Popen(["sleep", LONG]) for _ in range(8)]
    try:
        with ThreadPoolExecutor() as side_by_side:
            found = list(
                side_by_side.map(lambda source: run(source, PATIENT, 6), [each for each, _ in sources.values()])
            )
    finally:
        for source, _ in sources.values():
            source.close()
        for each in sleepers:
            each.kill()
            each.wait()
    for (seconds, (_, reports)), readings in zip(sources.items(), found, strict=True):
        assert [len(reading.entities) for reading in readings] == [8] * 6
        late = [reading.codes.count(TIMEOUT) // len(PROCESSES.metrics) for reading in readings]
        assert late == [0, 0, 0 if seconds == 0.15 else 5, 0, 0, 0]
        assert not reports
        assert all(0.5 < reading.dt < 1.5 for reading in readings[1:])


@pytest.mark.parametrize(
    ("resource_set", "tool", "instead"), [("host", "vmstat", HostSource), ("processes", "pidstat", ProcessSource)]
)
def test_a_tool_that_is_not_installed_is_reported_and_proc_takes_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, resource_set: str, tool: str, instead: type
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    made, reports = request(resource_set)
    source = create(tool, made)
    assert isinstance(source, instead)
    assert "not installed" in reports[0]
    source.close()


@needs_tools
@pytest.mark.parametrize(("resource_set", "tool"), [("host", "vmstat"), ("processes", "pidstat")])
def test_an_interval_that_the_tool_does_not_know(resource_set: str, tool: str) -> None:
    made, reports = request(resource_set, 0.5)
    source = create(tool, made)
    assert source.name == "procfs"
    assert "0.5 s" in reports[0]
    source.close()


@needs_tools
def test_more_pids_than_an_argument_holds_are_left_to_proc() -> None:
    most = 16384
    made, reports = request("processes", selection=Selection(pids=(os.getpid(),), limit=most))
    source = create("pidstat", made)
    assert isinstance(source, PidstatSource)
    pids = ",".join([str(1 << 22)] * most)
    subprocess.run(["/bin/true", pids], check=True)  # the kernel takes it
    with pytest.raises(OSError, match="too long"):
        subprocess.run(["/bin/true", f"{pids},1"], check=False)
    made, reports = request("processes", selection=Selection(pids=(os.getpid(),), limit=most + 1))
    source = create("pidstat", made)
    assert isinstance(source, ProcessSource)
    assert "at most 16384 pids" in reports[0]
    source.close()
