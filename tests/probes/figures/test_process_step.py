"""The step in C reads processes as probes.figures.process_files does: captured, changed and hostile texts."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from array import array
from math import isnan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition.model.codes import FIRST, MISSING, UNREADABLE, VALID
from probes.figures import taskstats
from probes.figures.process_row import COLUMNS, FILES, Units
from probes.figures.process_table import NativeTable, PythonTable
from probes.sampling import native
from tests.support import FIXTURES
from tests.support.untested import require_native
from tests.support.waiting import eventually

require_native(native.PROCESSES)

CAPTURES = FIXTURES / "proc"
PID = 4711
START = 123456
EVERY = frozenset(range(len(FILES)))
MOST = (1 << 64) - 1

counters = st.integers(0, MOST) | st.integers(0, 5000) | st.sampled_from([1 << 63, (1 << 64) - 2])
junk = st.sampled_from(
    [
        b"",
        b"\n",
        b"(",
        b")",
        b"x) ",
        b"-1",
        b"+1",
        b"1_0",
        b"18446744073709551616",
        b"\xff\0",
        b" " * 600,
        b"7" * 600,
        b"a b",
    ]
)


@st.composite
def stat_texts(draw: st.DrawFn) -> bytes:
    """A text of /proc/PID/stat: the kernel's, or one in which something is otherwise."""
    fields = [draw(st.sampled_from([b"S", b"R", b"T", b"t", b"\xff"])), *[b"0"] * 49]
    for place in (7, 9, 11, 12, 20, 21, 39, 40):
        fields[place] = b"%d" % draw(counters)
    fields[17], fields[19] = b"%d" % draw(st.integers(0, 40)), b"%d" % START
    name = draw(st.sampled_from([b"a", b"a (b) c", b") 1 2 3", b"\n", b"x" * 500, b""]))
    if draw(st.integers(0, 3)) == 0:
        fields[draw(st.integers(0, 49))] = draw(junk)
    if draw(st.integers(0, 9)) == 0:
        fields = fields[: draw(st.integers(0, 50))]
    return b"%d (%s) " % (PID, name) + b" ".join(fields) + b"\n"


@st.composite
def labelled(draw: st.DrawFn, labels: tuple[bytes, ...]) -> bytes:
    """Lines of a label and a number, hardly ever another thing."""
    lines = [b"%s %s" % (label, draw(st.one_of(counters.map(lambda n: b"%d" % n), junk))) for label in labels]
    return draw(junk) + b"\n".join(lines) + b"\n" if draw(st.integers(0, 4)) == 0 else b"\n".join(lines) + b"\n"


def plain(labels: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    """Such lines with numbers only."""
    return st.tuples(*[counters] * len(labels)).map(
        lambda found: b"".join(b"%s %d\n" % pair for pair in zip(labels, found, strict=True))
    )


IO = (b"rchar:", b"wchar:", b"read_bytes:", b"write_bytes:", b"cancelled_write_bytes:")
STATUS = (b"Name:\tx\nvoluntary_ctxt_switches:", b"nonvoluntary_ctxt_switches:")
TEXTS = {
    "stat": stat_texts(),
    "io": plain(IO) | labelled(IO) | junk,
    "status": plain(STATUS) | labelled(STATUS) | junk,
    "schedstat": st.tuples(counters, counters).map(lambda two: b"%d %d 7\n" % two) | junk,
}
#: Every file but ``stat`` may vanish while the process lives.
VANISHED = {file: texts | st.none() if file != "stat" else texts for file, texts in TEXTS.items()}
ticks = st.lists(st.fixed_dictionaries({}, optional=VANISHED), min_size=1, max_size=6)


def units(seconds: float, by_threads: bool = False) -> Units:
    found = Units(100, 4096, by_threads=by_threads)
    found.begin(seconds, 8e9)
    return found


def figures(table: NativeTable | PythonTable) -> tuple[list[str], bytes, bytes]:
    values, codes = table.rows()
    return [repr(value) for value in values], bytes(codes), table.states()


@settings(max_examples=400, deadline=None)
@given(
    changes=ticks,
    seconds=st.floats(0.001, 10.0) | st.just(0.0),
    wanted=st.sets(st.sampled_from(sorted(EVERY - {0}))),
    kept=st.booleans(),
    delays=st.booleans(),
    by_threads=st.booleans(),
)
def test_the_same_figures_codes_and_ends(
    changes: list[dict[str, bytes | None]], seconds: float, wanted: set[int], kept: bool, delays: bool, by_threads: bool
) -> None:
    with tempfile.TemporaryDirectory() as name:
        base = Path(shutil.copytree(CAPTURES / "before" / str(PID), Path(name) / str(PID)))
        tables = NativeTable(name), PythonTable(name)
        for table in tables:
            table.add(PID, START, frozenset({0} | wanted), delays, EVERY if kept else frozenset())
        for change in [{}, *changes]:
            for file, text in change.items():
                if text is None:
                    (base / file).unlink(missing_ok=True)
                else:
                    (base / file).write_bytes(text)
            gone = [table.read(units(seconds, by_threads)) for table in tables]
            assert gone[0] == gone[1]
            assert figures(tables[0]) == figures(tables[1])
            assert list(tables[0].pids()) == list(tables[1].pids())
        for table in tables:
            table.drop(list(table.pids()))


@pytest.mark.parametrize("make", [NativeTable, PythonTable])
@pytest.mark.parametrize(
    ("file", "text", "columns"),
    [
        ("stat", b"4711 (x) S 1", COLUMNS[0]),
        ("stat", b"", COLUMNS[0]),
        ("io", b"read_bytes: many\nwrite_bytes: 1\ncancelled_write_bytes: 0\n", COLUMNS[2]),
        ("schedstat", b"1 x 3\n", (*COLUMNS[1], *COLUMNS[3])),
        ("schedstat", b"1 2\n", (*COLUMNS[1], *COLUMNS[3])),
    ],
)
def test_a_text_that_is_none_costs_its_own_figures_and_one_tick(
    tmp_path: Path, make: type[NativeTable | PythonTable], file: str, text: bytes, columns: tuple[int, ...]
) -> None:
    base = Path(shutil.copytree(CAPTURES / "before" / str(PID), tmp_path / str(PID)))
    table = make(str(tmp_path))
    table.add(PID, START, EVERY, True, EVERY)
    table.read(units(1.0))
    good = (base / file).read_bytes()
    (base / file).write_bytes(text)
    assert table.read(units(1.0)) == []
    codes = table.rows()[1]
    assert {codes[column] for column in columns} == {UNREADABLE}
    assert {code for column, code in enumerate(codes) if column not in columns} == {VALID}
    (base / file).write_bytes(good)
    table.read(units(1.0))
    assert {table.rows()[1][column] for column in columns} <= {FIRST, VALID}
    table.read(units(1.0))
    assert not any(table.rows()[1])
    table.drop([PID])


@pytest.mark.parametrize("make", [NativeTable, PythonTable])
@pytest.mark.parametrize(("file", "columns"), [("io", COLUMNS[2]), ("schedstat", COLUMNS[3]), ("status", COLUMNS[1])])
@pytest.mark.parametrize("text", [b"", None])
def test_what_vanishes_while_the_process_lives_is_missing(
    tmp_path: Path, make: type[NativeTable | PythonTable], file: str, columns: tuple[int, ...], text: bytes | None
) -> None:
    base = Path(shutil.copytree(CAPTURES / "before" / str(PID), tmp_path / str(PID)))
    table = make(str(tmp_path))
    table.add(PID, START, EVERY, True, frozenset())
    table.read(units(1.0))
    if file == "status":  # not read of a thread that has not run
        (base / "schedstat").write_bytes(b"10 20 30\n")
    (base / file).unlink()
    if text is not None:
        (base / file).write_bytes(text)
    for _ in range(2):
        assert table.read(units(1.0)) == []
        assert {column for column, code in enumerate(table.rows()[1]) if code == MISSING} == set(columns)
    table.drop([PID])


def test_many_asked_at_once_are_told_the_same_as_one_after_the_other(tmp_path: Path) -> None:
    netlink = taskstats.connect()
    if netlink is None:
        pytest.skip("taskstats needs CAP_NET_ADMIN and CONFIG_TASKSTATS: not to be had here")
    loop = "import os, time\nfor _ in range(50): time.sleep(0.001)\nos.kill(os.getpid(), 19)\ntime.sleep(60)"
    children = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(20)]  # more than are asked at once
    pids = [child.pid for child in children]
    try:
        for pid in pids:
            stat = Path(f"/proc/{pid}/stat")  # what stands still has the same figures for both
            eventually(lambda stat=stat: b") T " in stat.read_bytes())
            shutil.copytree(CAPTURES / "before" / str(PID), tmp_path / str(pid))
            for file in ("status", "schedstat"):  # what is not asked, and what says of the fourth that it has not run
                (tmp_path / str(pid) / file).write_bytes(Path(f"/proc/{pid}/{file}").read_bytes())
        tables = NativeTable(str(tmp_path)), PythonTable(str(tmp_path))
        for ended in ((), (0, 7, 8, 19)):  # of those that are over the kernel knows nothing, and status is read
            for number in ended:
                children[number].kill()
                children[number].wait()
            for pid in pids:
                text = tmp_path / str(pid) / "schedstat"
                if pid != pids[3]:
                    text.write_bytes(text.read_bytes() + b" ")  # another text: they have run
            for table in tables:
                for pid in pids if not ended else ():
                    table.add(pid, START, EVERY, True, EVERY)
                asking = Units(100, 4096, netlink)
                asking.begin(1.0, 8e9)
                assert table.read(asking) == []
            assert figures(tables[0]) == figures(tables[1])
            switches = tables[0].rows()[0][14::16]
            assert not ended or not any(map(isnan, switches))
        for table in tables:
            table.drop(list(table.pids()))
    finally:
        netlink.close()
        for child in children:
            child.kill()
            child.wait()


@pytest.mark.parametrize("make", [NativeTable, PythonTable])
def test_those_that_end_leave_and_the_others_keep_their_rows(make: type[NativeTable | PythonTable]) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    children = [subprocess.Popen(command) for _ in range(4)]
    try:
        table = make("/proc")
        starts = {}
        for child in children:
            fields = Path(f"/proc/{child.pid}/stat").read_bytes().rpartition(b")")[2].split()
            starts[child.pid] = int(fields[19])
            table.add(child.pid, starts[child.pid], EVERY, True, EVERY)
        assert table.read(units(1.0)) == []
        for child in (children[0], children[2]):
            child.kill()
            child.wait()
        assert table.read(units(1.0)) == [children[0].pid, children[2].pid]
        assert list(table.pids()) == [children[1].pid, children[3].pid]
        assert [len(part) for part in table.rows()] == [32, 32]
        assert table.rows()[0][7] > 1 << 20  # virtual
        with pytest.raises(OSError, match="No such"):
            table.add(children[0].pid, 1, EVERY, True, EVERY)
        table.drop([children[1].pid])
        table.add(children[1].pid, starts[children[1].pid] + 1, EVERY, True, EVERY)  # somebody else's pid by now
        assert table.read(units(1.0)) == [children[1].pid]
        assert list(table.pids()) == [children[3].pid]
        table.drop([children[3].pid])
    finally:
        for child in children:
            child.kill()
            child.wait()


def test_no_descriptor_is_left_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    table = NativeTable("/proc")
    start = int(Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()[19])
    table.add(os.getpid(), start, EVERY, True, EVERY)
    table.add(os.getppid(), 1, EVERY, True, frozenset())
    assert len(os.listdir("/proc/self/fd")) == before + len(FILES)
    assert table.read(units(1.0)) == [os.getppid()]
    table.drop([os.getpid()])
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_does_not_fit_is_refused() -> None:
    step = native.PROCESSES
    assert step is not None
    record = step.open_process(b"/proc", os.getpid(), 1, 1, 0, True)
    rest = (b"/proc", 1.0, 1.0, 4096.0, 1.0, 1.0, -1, 0, 0)
    for records, values, codes, states in [
        (bytearray(record[1:]), array("d", bytes(128)), bytearray(16), bytearray(1)),
        (bytearray(record), array("d", bytes(120)), bytearray(16), bytearray(1)),
        (bytearray(record), array("d", bytes(128)), bytearray(15), bytearray(1)),
        (bytearray(record), array("d", bytes(128)), bytearray(16), bytearray(0)),
    ]:
        with pytest.raises(ValueError, match="do not fit"):
            step.read_processes(records, values, codes, states, *rest)
