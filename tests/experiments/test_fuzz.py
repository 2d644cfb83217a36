"""A few seconds of fuzzing, and whether its oracles would see what they look for."""

import json
import os
import re
import subprocess
import sys

import pytest

from acquisition.errors import FrameError
from acquisition.link import happenings
from acquisition.wire import position, status, table
from experiments.fuzz import __main__ as fuzz
from experiments.fuzz import fields, frames, lines
from experiments.fuzz.guard import Hang, bounded, growth
from experiments.fuzz.line_oracle import Unsound
from filters.kernels import numpy_step
from filters.service.ticks import event_recorder
from filters.worker.step import native
from probes.checks import range as range_check
from probes.tools import pidstat_header, vmstat


def found(tmp_path, *arguments):
    """The document of a run that finds nothing."""
    command = [sys.executable, "-m", "experiments.fuzz", "--seed", "11", "--json", "--failures", str(tmp_path)]
    done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    document = json.loads(done.stdout)
    assert document["passed"]
    assert not os.listdir(tmp_path)
    return document


def test_lines_and_frames_find_nothing(tmp_path):
    document = found(tmp_path, "--lines", "20000", "--frames", "4000", "--fields", "4000", "--entries", "0")
    assert document["lines"]["mutated"] >= 20_000
    assert document["lines"]["valid"] > 10_000
    assert document["frames"]["mutated"] >= 4_000
    assert document["frames"]["valid"] > 4_000
    assert document["fields"]["mutated"] >= 4_000
    assert min(document["fields"]["taken"], document["fields"]["refused"]) > 1_000


@pytest.mark.few
def test_foreign_entries_find_nothing(tmp_path):
    entries = found(tmp_path, "--lines", "0", "--frames", "0", "--fields", "0", "--entries", "1500")["entries"]
    assert entries["put_aside"] >= entries["no_frames"] > 1_000
    assert entries["samples_lost"] == 0


@pytest.mark.parametrize("kind", [lines, frames, fields])
def test_a_case_is_a_function_of_seed_and_number(kind):
    assert kind.session(3, 17) == kind.session(3, 17)
    assert kind.session(3, 17) != kind.session(4, 17)
    assert kind.dump(kind.session(3, 17))


def unsound(kind, cases=60):
    """The first reason of an oracle among the first cases."""
    for number in range(cases):
        try:
            kind.run(kind.session(1, number))
        except Unsound as error:
            return str(error)
    return ""


def test_the_oracle_sees_a_wrong_scale_of_pidstat(monkeypatch):
    monkeypatch.setitem(pidstat_header.COLUMNS, b"minflt/s", ("minor_faults_per_second", 10.0))
    assert "minor_faults_per_second" in unsound(lines)


def test_the_oracle_sees_swapped_columns_of_vmstat(monkeypatch):
    monkeypatch.setitem(vmstat._COLUMNS, b"si", ("swap_out_bytes_per_second", "size"))
    monkeypatch.setitem(vmstat._COLUMNS, b"so", ("swap_in_bytes_per_second", "size"))
    assert "swap_" in unsound(lines)


def test_the_oracle_sees_values_out_of_range(monkeypatch):
    monkeypatch.setattr(range_check, "mark_outside", lambda *_: None)
    assert "outside" in unsound(lines)


@pytest.mark.parametrize(
    ("where", "check", "instead"),
    [
        (table, "_number", float),
        (table, "_text", str),
        (table, "_ID", re.compile("-?[0-9a-f]*")),
        (position, "MOST", 2**64),
        (position, "is_possible", bool),
        (status, "_text", str),
        (event_recorder, "_OF_A_HOST", re.compile("hot:.*", re.DOTALL)),
        (happenings, "_is_text", bool),
    ],
)
def test_the_oracle_sees_what_a_decoder_lets_pass(monkeypatch, where, check, instead):
    """Without one of its checks nobody behind a decoder would know what to do."""
    monkeypatch.setattr(where, check, instead)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - any: that is what fuzzing looks for
        list(map(fields.run, (fields.session(1, number) for number in range(400))))
    assert not isinstance(caught.value, FrameError)


def test_the_oracle_sees_numbers_that_are_none_in_frames(monkeypatch):
    monkeypatch.setattr(native, "NATIVE_KERNELS", ())  # with numpy, where the fault is made
    monkeypatch.setattr(numpy_step, "_trusted", lambda _x, codes: codes)
    assert "no finite number" in unsound(frames)


def test_what_takes_too_long_is_a_hang_and_memory_that_grows_is_seen():
    with pytest.raises(Hang), bounded(0.05):
        sum(iter(lambda: 1, 0))
    assert growth([(done, 10**8) for done in range(0, 1000, 10)], 1000)["flat"]
    assert not growth([(done, 10**8 + 10**5 * done) for done in range(0, 1000, 10)], 1000)["flat"]


def test_a_failure_is_saved_and_named(monkeypatch, tmp_path, capsys):
    answer = {"kind": "lines", "case": 5, "error": "E", "where": "W", "input": str(tmp_path)}
    found = {"mutated": 1, "failures": [answer]}
    monkeypatch.setattr(fuzz, "_in_parallel", lambda *_: found)
    assert fuzz.main(["--lines", "1", "--frames", "0", "--fields", "0", "--entries", "0"]) == 1
    assert "lines/5: E" in capsys.readouterr().out
    assert fuzz.main(["--seed", "3", "--only", "lines/17"]) == 0
