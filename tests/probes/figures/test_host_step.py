"""The step in C reads the host as the groups of figures do: captured, changed and hostile texts, new interfaces."""

from __future__ import annotations

import re
import shutil
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acquisition import compiled
from acquisition.errors import UnavailableError
from acquisition.model.codes import FIRST, VALID
from acquisition.model.metric import ResourceSet
from probes.figures import agreed, network, vms_suffering
from probes.metrics import HOST
from probes.sampling import native
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_host import HostSource
from tests.support import FIXTURES
from tests.support.untested import require_native

require_native(native.PROCESSES)

CAPTURES = FIXTURES / "proc"
FILES = ("stat", "meminfo", "vmstat", "net/dev", "pressure/cpu", "pressure/memory", "pressure/io")
MOST = (1 << 64) - 1
NUMBER = re.compile(rb"\d+")

numbers = st.integers(0, 5000) | st.integers(0, MOST) | st.sampled_from([0, 1 << 63, MOST, MOST + 1, 1 << 200])
junk = st.sampled_from(
    [b"", b"\n", b" ", b"x", b"-1", b"+1", b"1_0", b"\xff\0", b":", b"\r", b"\x0b", b" " * 60, b"9" * 60]
)


@st.composite
def texts(draw: st.DrawFn, file: str) -> bytes:
    """What the kernel wrote at one of two moments, with other numbers, or with a few places that are otherwise."""
    text = (CAPTURES / draw(st.sampled_from(["before", "after"])) / file).read_bytes()
    if draw(st.booleans()):
        step = draw(st.integers(0, 300))
        text = NUMBER.sub(lambda found: b"%d" % (int(found[0]) + step), text)
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.sampled_from([found.start() for found in NUMBER.finditer(text)] or [0]))
        rest = NUMBER.sub(b"", text[at:], count=1)
        text = text[:at] + draw(st.one_of(numbers.map(lambda n: b"%d" % n), junk)) + rest
    if draw(st.integers(0, 4)) == 0:
        lines = text.splitlines(keepends=True)
        place = draw(st.integers(0, max(0, len(lines) - 1)))
        lines[place : place + 1] = draw(st.sampled_from([[], lines[place : place + 1] * 2, [draw(junk)]]))
        text = b"".join(lines)
    return text


changes = st.lists(
    st.fixed_dictionaries({}, optional={file: st.none() | texts(file) for file in FILES}), min_size=1, max_size=5
)


def machine(directory: str) -> HostFacts:
    proc, sys = Path(directory) / "proc", Path(directory) / "sys"
    shutil.copytree(CAPTURES / "before", proc)
    for name in ("lo", "eth0", "vnet7"):
        (sys / "class" / "net" / name / "device").mkdir(parents=True)
    return HostFacts("host-a", str(proc), str(sys))


def sources(facts: HostFacts, resource_set: ResourceSet = HOST) -> tuple[HostSource, HostSource]:
    """The same host read in C and by the definition."""
    compiled, defined = HostSource(resource_set, facts), HostSource(resource_set, facts)
    defined._table = None
    return compiled, defined


def rows(source: HostSource, moment: float) -> tuple[list[str], bytes]:
    reading = source.sample(1000.0 + moment, moment)
    return [repr(value) for value in reading.values], bytes(reading.codes)


def change(file: Path, text: bytes | None) -> None:
    """New contents in place, as open files of /proc have; None: the file is empty."""
    file.write_bytes(text or b"")


@settings(max_examples=300, deadline=None)
@given(
    changes=changes,
    seconds=st.floats(0.001, 10.0),
    wanted=st.none() | st.sets(st.sampled_from(HOST.metrics), min_size=1),
)
def test_the_same_figures_and_codes(
    changes: list[dict[str, bytes | None]], seconds: float, wanted: set[object] | None
) -> None:
    chosen = HOST if wanted is None else ResourceSet(HOST.name, tuple(m for m in HOST.metrics if m in wanted))
    with tempfile.TemporaryDirectory() as name:
        facts = machine(name)
        both = sources(facts, chosen)
        for turn, files in enumerate([{}, *changes]):
            for file, text in files.items():
                change(Path(facts.proc) / file, text)
            compiled, defined = [rows(source, 50.0 + turn * seconds) for source in both]
            assert compiled == defined
        for source in both:
            source.close()


steps_of_ticks = st.lists(
    st.integers(0, 300) | st.integers(-120, 5) | st.integers(-200, 10**6) | st.sampled_from([-(2**32), 10**9]),
    min_size=10,
    max_size=10,
)


@settings(max_examples=300, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 8), steps_of_ticks), min_size=2, max_size=5),
    seconds=st.floats(0.1, 10.0),
)
def test_the_same_ticks_fall_and_jump(steps: list[tuple[int, list[int]]], seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        facts = machine(name)
        both = sources(facts, HOST.select(tuple(agreed.HOST_FIGURES[:11])))
        counters = [10**12] * 10
        for turn, (cpus, grown) in enumerate(steps):
            counters = [old + step for old, step in zip(counters, grown, strict=True)]
            text = b"cpu  %s\n" % " ".join(map(str, counters)).encode() + b"cpu0\n" * cpus
            change(Path(facts.proc) / "stat", text)
            compiled, defined = [rows(source, 50.0 + turn * seconds) for source in both]
            assert compiled == defined
        for source in both:
            source.close()


@settings(max_examples=100, deadline=None)
@given(
    steps=st.lists(st.tuples(st.integers(0, 10**9), st.integers(0, 10**12)), min_size=2, max_size=5),
    seconds=st.floats(0.1, 10.0),
)
def test_the_same_bytes_are_too_many_for_a_link(steps: list[tuple[int, int]], seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        facts = machine(name)
        (Path(facts.sys) / "class" / "net" / "eth0" / "speed").write_text("1000")
        both = sources(facts)
        eth0 = vnet7 = 0
        for turn, grown in enumerate(steps):
            eth0, vnet7 = eth0 + grown[0], vnet7 + grown[1]
            row = "{}: {} 0 0 0 0 0 0 0 5 0 0 0 0 0 0 0\n"
            change(Path(facts.proc) / "net/dev", (row.format("eth0", eth0) + row.format("vnet7", vnet7)).encode())
            compiled, defined = [rows(source, 50.0 + turn * seconds) for source in both]
            assert compiled == defined
        for source in both:
            source.close()


def test_files_that_are_not_there_at_first(tmp_path: Path) -> None:
    facts = machine(str(tmp_path))
    for file in FILES:
        (Path(facts.proc) / file).unlink()
    both = sources(facts)
    assert rows(both[0], 50.0) == rows(both[1], 50.0)
    for file in FILES:
        shutil.copy(CAPTURES / "after" / file, Path(facts.proc) / file)
        assert rows(both[0], 51.0) == rows(both[1], 51.0)
    for source in both:
        source.close()


def test_a_text_of_many_interrupts(tmp_path: Path) -> None:
    facts = machine(str(tmp_path))
    both = sources(facts)
    rows(both[0], 50.0), rows(both[1], 50.0)
    text = (CAPTURES / "after" / "stat").read_bytes()
    change(Path(facts.proc) / "stat", text.replace(b"\nctxt", b" 0" * 60_000 + b"\nctxt"))
    found = rows(both[0], 51.0)
    assert found == rows(both[1], 51.0)
    assert not found[1][HOST.metrics.index(next(m for m in HOST.metrics if m.name == "context_switches_per_second"))]
    for source in both:
        source.close()


def test_an_interface_that_comes_has_no_rate_yet_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "_REFRESH", 2)
    facts = machine(str(tmp_path))
    both = sources(facts)
    (Path(facts.sys) / "class" / "net" / "tap9" / "device").mkdir(parents=True)
    (Path(facts.sys) / "class" / "net" / "eth0" / "device").rmdir()
    text = (Path(facts.proc) / "net/dev").read_bytes() + b" tap9: 1000 0 0 0 0 0 0 0 2000 0 0 0 0 0 0 0\n"
    for turn in range(6):
        change(Path(facts.proc) / "net/dev", text.replace(b"1000 0", b"%d 0" % (1000 + turn)))
        assert rows(both[0], 50.0 + turn) == rows(both[1], 50.0 + turn)
    for source in both:
        source.close()


def test_this_machine_is_read_alike() -> None:
    both = sources(HostFacts("this"))
    first = [source.sample(time.time(), 100.0) for source in both]
    assert list(first[0].codes) == list(first[1].codes)
    assert FIRST in first[0].codes
    assert VALID in first[0].codes
    for source in both:
        source.close()


@pytest.mark.parametrize("name", ["HOST_FIGURES", "PROCESS_METRICS", "UNREADABLE", "sizeof Link"])
def test_definition_that_the_step_does_not_share_is_refused(name: str) -> None:
    table = agreed.table()
    value: Any = table[name]
    other = value[::-1] if isinstance(value, tuple) else value + 1
    assert native.PROCESSES is not None
    with pytest.raises(UnavailableError, match=re.escape(f"{name} is {value} in C and {other} in Python")):
        compiled.agree(native.PROCESSES, {**table, name: other})


def test_every_figure_of_the_step_has_its_number() -> None:
    elsewhere = {metric.name for metric in vms_suffering.METRICS}  # left by the source of VMs
    assert set(agreed.HOST_FIGURES) == {metric.name for metric in HOST.metrics} - elsewhere


def test_parts_that_do_not_fit_are_refused() -> None:
    step = native.PROCESSES
    assert step is not None
    record, cells = bytearray(step.HOST_RECORD), (bytes(1), array("d", [0.0]), bytearray(1))
    with pytest.raises(ValueError, match="do not fit"):
        step.read_host((-1,), record, bytearray(), 1.0, 1.0, 100.0, 4096.0, 0.0, *cells)
    with pytest.raises(ValueError, match="do not fit"):
        step.read_host((-1,) * 7, record[1:], bytearray(), 1.0, 1.0, 100.0, 4096.0, 0.0, *cells)
