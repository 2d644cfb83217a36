"""Processes from /proc: figures worked out by hand, ends, reuse of pids, permissions, few descriptors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from math import isnan
from pathlib import Path

import pytest

from acquisition.model.codes import FIRST, MISSING, RATE, RESET, VALID
from probes.figures import process_table, taskstats
from probes.figures.process_files import ProcessFiles
from probes.figures.process_row import COLUMNS, FILES, WIDTH, Units
from probes.metrics import PROCESSES
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sources.procfs_processes import ProcessSource, wanted_files
from tests.support import FIXTURES
from tests.support.processes import started
from tests.support.untested import require_native
from tests.support.waiting import eventually

CAPTURES = FIXTURES / "proc"
NAMES = [metric.name for metric in PROCESSES.metrics]
START = 123456


@pytest.fixture(autouse=True, params=["native", "python"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that asks a source holds for both steps."""
    if request.param == "native":
        require_native(process_table.PROCESSES)
    else:
        monkeypatch.setattr(process_table, "PROCESSES", None)


def units(seconds: float = 2.0) -> Units:
    found = Units(100, 4096)
    found.begin(seconds, 8_000_000 * 1024.0)
    return found


def copied(tmp_path: Path) -> Path:
    shutil.copytree(CAPTURES / "before" / "4711", tmp_path / "4711")
    return tmp_path / "4711"


def later(base: Path, *names: str) -> None:
    for name in names or FILES:
        (base / name).write_bytes((CAPTURES / "after" / "4711" / name).read_bytes())


def figures(files: ProcessFiles) -> dict[str, float]:
    return dict(zip(NAMES, files.values, strict=True))


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with started([sys.executable, "-c", "import time; time.sleep(60)"]) as child:
        yield child


def test_every_figure_over_two_seconds(tmp_path: Path) -> None:
    base = copied(tmp_path)
    files = ProcessFiles(str(base), START)
    files.read(units())
    later(base)
    files.read(units())
    assert figures(files) == pytest.approx(
        {
            "cpu_user_ratio": (90 - 40) / 200,
            "cpu_system_ratio": 20 / 200,
            "cpu_guest_ratio": 40 / 200,
            "cpu_wait_ratio": 0.1,
            "cpu_ratio": 110 / 200,
            "minor_faults_per_second": 100.0,
            "major_faults_per_second": 1.0,
            "memory_virtual_bytes": 2147483648.0,
            "memory_resident_bytes": 1500 * 4096.0,
            "memory_ratio": 1500 * 4096.0 / (8_000_000 * 1024.0),
            "disk_read_bytes_per_second": 4096.0,
            "disk_write_bytes_per_second": 10240.0,
            "disk_write_cancelled_bytes_per_second": 2048.0,
            "io_delay_ticks": 4.0,
            "voluntary_switches_per_second": 20.0,
            "involuntary_switches_per_second": 3.0,
        }
    )
    assert not any(files.codes)
    assert not files.flagged


def test_the_first_reading_has_gauges_and_no_rates(tmp_path: Path) -> None:
    files = ProcessFiles(str(copied(tmp_path)), START)
    files.read(units())
    for name, value, code in zip(NAMES, files.values, files.codes, strict=True):
        assert code == (VALID if name.startswith("memory_") else FIRST), name
        assert isnan(value) == (code == FIRST)


def test_what_does_not_change_has_no_growth(tmp_path: Path) -> None:
    base = copied(tmp_path)
    files = ProcessFiles(str(base), START)
    for _ in range(2):
        files.read(units())
    assert not files.flagged
    rates = [value for name, value in figures(files).items() if not name.startswith("memory_")]
    assert rates == [0.0] * 13
    later(base)
    files.read(units())
    files.read(units())
    assert [value for name, value in figures(files).items() if not name.startswith("memory_")] == [0.0] * 13


def test_a_counter_that_went_back_is_reset_for_one_tick(tmp_path: Path) -> None:
    base = copied(tmp_path)
    later(base)
    files = ProcessFiles(str(base), START)
    files.read(units())
    shutil.copy(CAPTURES / "before" / "4711" / "io", base / "io")
    files.read(units())
    assert [files.codes[column] for column in COLUMNS[2]] == [RESET] * 3
    assert all(isnan(files.values[column]) for column in COLUMNS[2])
    files.read(units())
    assert not files.flagged
    assert files.values[10] == 0.0


def bounded(tmp_path: Path, stats: list[str]) -> list[tuple[list[float], list[int]]]:
    """CPU figures and their codes for each text of stat after the first, a second apart."""
    base, table = copied(tmp_path), process_table.create(str(tmp_path))
    table.add(4711, START, frozenset({0}), True, frozenset())
    bounds = Units(100, 4096, by_threads=True)
    found = []
    for text in stats:
        (base / "stat").write_text(text)
        bounds.begin(1.0, 8e9)
        assert not table.read(bounds)
        values, codes = table.rows()
        found.append(([values[column] for column in (0, 1, 2, 4)], [codes[column] for column in (0, 1, 2, 4)]))
    table.drop([4711])
    return found[1:]


def stat_of(user: int, system: int, threads: int) -> str:
    before = (CAPTURES / "before" / "4711" / "stat").read_text()
    head, _, rest = before.rpartition(") ")
    fields = rest.split()
    fields[11:13], fields[17] = [str(1000 + user), str(1000 + system)], str(threads)
    return f"{head}) {' '.join(fields)}\n"


def test_a_counter_that_jumps_costs_its_own_figures_and_one_tick(tmp_path: Path) -> None:
    jumped, after = bounded(tmp_path, [stat_of(0, 0, 1), stat_of(10**9, 20, 1), stat_of(10**9 + 50, 40, 1)])
    assert jumped == (pytest.approx([1e7, 0.2, 0.0, 1e7 + 0.2]), [RATE, VALID, VALID, RATE])
    assert after == (pytest.approx([0.5, 0.2, 0.0, 0.7]), [VALID] * 4)


def test_threads_that_were_there_at_either_end_could_run(tmp_path: Path) -> None:
    stats = [stat_of(0, 0, 8), stat_of(600, 0, 1), stat_of(1200, 0, 7), stat_of(1800, 0, 1), stat_of(1905, 0, 1)]
    assert [codes[3] for _, codes in bounded(tmp_path, stats)] == [VALID] * 4
    assert [codes[3] for _, codes in bounded(tmp_path / "again", [stat_of(0, 0, 1), stat_of(120, 0, 1)])] == [RATE]


def test_guest_time_that_runs_ahead_of_user_time_is_jitter(tmp_path: Path) -> None:
    base = copied(tmp_path)
    files = ProcessFiles(str(base), START)
    files.read(units())
    text = (base / "stat").read_text().replace(" 1000 200 ", " 1001 200 ").replace(" 5 400 ", " 5 403 ")
    (base / "stat").write_text(text)
    files.read(units())
    assert figures(files)["cpu_user_ratio"] == 0.0
    assert not files.flagged


@pytest.mark.parametrize(("name", "columns"), [("io", COLUMNS[2]), ("schedstat", COLUMNS[3]), ("status", COLUMNS[1])])
def test_a_file_that_cannot_be_read_is_missing(tmp_path: Path, name: str, columns: tuple[int, ...]) -> None:
    base = copied(tmp_path)
    (base / name).unlink()
    files = ProcessFiles(str(base), START)
    for _ in range(2):
        files.read(units())
        assert all(files.codes[column] == MISSING and isnan(files.values[column]) for column in columns)
    assert sum(code == MISSING for code in files.codes) == len(columns)


def test_a_kernel_without_delay_accounting_gives_no_delay(tmp_path: Path) -> None:
    files = ProcessFiles(str(copied(tmp_path)), START, delays=False)
    for _ in range(3):
        files.read(units())
        assert files.codes[13] == MISSING
        assert isnan(files.values[13])


def test_another_start_time_is_another_process(tmp_path: Path) -> None:
    with pytest.raises(ProcessLookupError):
        ProcessFiles(str(copied(tmp_path)), START + 1).read(units())


def test_files_may_be_opened_at_each_read(tmp_path: Path) -> None:
    base = copied(tmp_path)
    files = ProcessFiles(str(base), START, kept=frozenset())
    files.read(units())
    later(base)
    files.read(units())
    assert figures(files)["cpu_ratio"] == pytest.approx(110 / 200)
    shutil.rmtree(base)
    with pytest.raises(FileNotFoundError):
        files.read(units())


def test_only_the_files_of_the_selected_metrics_are_wanted() -> None:
    assert wanted_files((0, 4)) == {0}
    assert wanted_files((14,)) == {0, 1, 3}
    assert wanted_files((10,)) == {0, 2}
    assert wanted_files(tuple(range(WIDTH))) == {0, 1, 2, 3}


def source_of(selection: Selection, interval: float = 0.0, names: tuple[str, ...] = tuple(NAMES)) -> ProcessSource:
    facts = HostFacts("here")
    return ProcessSource(PROCESSES.select(names), facts, Discovery(facts, selection, interval))


def sampled(source: ProcessSource) -> Reading:
    return source.sample(time.time(), time.monotonic())


@pytest.mark.parametrize(("known", "expected"), [(1, os.sysconf("SC_NPROCESSORS_ONLN")), (0, 0), (64, 64)])
def test_cores_are_counted_again_when_a_process_has_more(tmp_path: Path, known: int, expected: int) -> None:
    shutil.copytree(CAPTURES / "before", tmp_path / "proc")
    facts = HostFacts("host-a", str(tmp_path / "proc"))
    source = ProcessSource(PROCESSES, facts, Discovery(facts, Selection(pids=(4711,)), 3600.0))
    for second, ticks in enumerate((0, 250)):
        (tmp_path / "proc" / "4711" / "stat").write_text(stat_of(ticks, 0, 3))
        facts.cores = known
        reading = source.sample(1000.0 + second, 10.0 + second)
    assert (reading.cores, reading.values[4]) == (expected, 2.5)
    source.close()


def test_a_process_that_ends_drops_out_at_once(sleeper: subprocess.Popen[bytes]) -> None:
    source = source_of(Selection(pids=(sleeper.pid, os.getpid())), 3600.0)
    assert {entity.labels["pid"] for entity in sampled(source).entities} == {str(sleeper.pid), str(os.getpid())}
    sleeper.kill()
    sleeper.wait()
    reading = sampled(source)
    assert [entity.labels["pid"] for entity in reading.entities] == [str(os.getpid())]
    assert len(reading.values) == len(reading.codes) == WIDTH
    source.close()


def test_a_subset_of_metrics_keeps_its_order() -> None:
    names = ("cpu_ratio", "memory_resident_bytes", "voluntary_switches_per_second")
    source = source_of(Selection(pids=(os.getpid(),)), names=names)
    sampled(source)
    time.sleep(0.05)
    reading = sampled(source)
    assert len(reading.values) == 3
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    assert reading.values[1] == pytest.approx(resident, rel=0.2)
    assert reading.values[2] >= 0
    source.close()


def test_entities_stay_the_same_list_while_nothing_changes() -> None:
    source = source_of(Selection(pids=(os.getpid(),)))
    assert sampled(source).entities is sampled(source).entities
    source.close()


def test_a_reused_pid_is_a_new_epoch(tmp_path: Path) -> None:
    shutil.copytree(CAPTURES / "before", tmp_path / "proc")
    facts = HostFacts("here", str(tmp_path / "proc"))
    source = ProcessSource(PROCESSES, facts, Discovery(facts, Selection(), 0.0))
    before = sampled(source).entities[0]
    stat = tmp_path / "proc" / "4711" / "stat"
    stat.write_text(stat.read_text().replace(f" {START} ", " 999999 "))
    sampled(source)
    after = sampled(source).entities[0]
    assert after.stable == before.stable == "here:4711"
    assert after.epoch != before.epoch
    assert after.id != before.id
    assert after.name == "a (b) c"
    source.close()


def test_taskstats_agrees_with_proc(sleeper: subprocess.Popen[bytes]) -> None:
    found = taskstats.connect()
    if found is None:
        pytest.skip("taskstats needs CAP_NET_ADMIN and CONFIG_TASKSTATS: not to be had here")

    def expected() -> tuple[int, ...]:
        text = Path(f"/proc/{sleeper.pid}/status").read_text().split()
        waited = int(Path(f"/proc/{sleeper.pid}/schedstat").read_text().split()[1])
        return waited, *(int(text[text.index(f"{kind}voluntary_ctxt_switches:") + 1]) for kind in ("", "non"))

    def at_rest() -> tuple[object, object] | None:  # it may still be starting
        before, seen = expected(), found.read(sleeper.pid)
        return (seen, before) if before == expected() else None

    seen, shown = eventually(at_rest)
    assert seen == shown
    sleeper.kill()
    sleeper.wait()
    assert found.read(sleeper.pid) is None
    found.close()


def test_without_taskstats_the_same_figures_come_from_status() -> None:
    with_it, without = source_of(Selection(pids=(os.getpid(),))), source_of(Selection(pids=(os.getpid(),)))
    if without._watched._units.task_stats is not None:
        without._watched._units.task_stats.close()
    without._watched._units.task_stats = None
    for source in (with_it, without):
        sampled(source)
    for _ in range(20):
        time.sleep(0.005)
    readings = [sampled(source) for source in (with_it, without)]
    switches = [reading.values[14] * reading.dt for reading in readings]
    assert switches[0] >= 19
    assert abs(switches[0] - switches[1]) <= 2
    for source in (with_it, without):
        source.close()
