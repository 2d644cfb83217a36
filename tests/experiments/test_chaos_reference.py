"""The vectorised reference equals the scalar model; the load is a function of numbers; logs survive kills."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from experiments.chaos import host_log, reference
from experiments.chaos.host_log import HostLog, LogError, Note
from experiments.chaos.load import RESTLESS, Load
from experiments.harness import scalar_model
from experiments.harness.scalar_model import Observation

LOAD = Load(hosts=4, entities=6, metrics=5, interval=1.0, seed=3, invalid=0.1)


def notes_of(host: int, count: int) -> list[Note]:
    """A log with a gap of seven seconds in it."""
    times = [1000.0 + number * 1.0003 + (7.0 if number > count // 2 else 0.0) for number in range(count)]
    return [
        Note(number, len(LOAD.rows(host, number)) * LOAD.metrics, 9, number + 1, at, at)
        for number, at in enumerate(times)
    ]


def test_reference_equals_the_scalar_model() -> None:
    notes = notes_of(2, 120)
    found = reference.run(LOAD, 2, notes, 5.0)
    for place, row in enumerate(found.rows):
        for column in range(LOAD.metrics):
            series: list[Observation] = []
            for note in notes:
                rows = LOAD.rows(2, note.number)
                if row not in rows:
                    series = []  # it left, and is forgotten
                    continue
                values, codes = LOAD.arrays_of(2, note.number, len(rows))
                at = rows.index(row), column
                series.append(Observation(note.monotonic, float(values[at]), int(codes[at])))
            expected = scalar_model.run(series, 5.0)
            for name in ("mean", "variance", "trend"):
                assert getattr(found, name)[place, column] == pytest.approx(
                    getattr(expected, name), rel=1e-12, nan_ok=True
                )
            np.testing.assert_equal(found.last[place, column], expected.last)
            assert found.code[place, column] == expected.code
            age = series[-1].monotonic - expected.valid_at
            assert found.age[place, column] == pytest.approx(math.inf if math.isnan(age) else age, abs=1e-9)


def test_vms_leave_and_come_back_as_who_they_were_or_as_new_ones() -> None:
    seen: dict[int, set[int]] = {}
    sizes = set()
    for number in range(200):
        rows = LOAD.rows(1, number)
        sizes.add(len(rows))
        assert rows[:6] == tuple((serial, 0) for serial in range(6))
        for row in rows[6:]:
            seen.setdefault(row.serial, set()).add(row.incarnation)
    assert len(sizes) > 1
    assert len(seen) == RESTLESS
    assert all((len(incarnations) > 1) == bool(serial % 2) for serial, incarnations in seen.items())


def test_values_and_codes_are_the_same_as_bytes_and_as_arrays() -> None:
    values, codes = LOAD.bytes_of(3, 17, 9)
    as_values, as_codes = LOAD.arrays_of(3, 17, 9)
    assert values == as_values.tobytes()
    assert codes in (as_codes.tobytes(), b"")


def test_a_log_keeps_whole_notes_and_takes_the_last_one_back(tmp_path: Path) -> None:
    path = tmp_path / "log"
    notes = notes_of(0, 3)
    log = HostLog(path)
    for note in notes:
        log.append(note)
    with path.open("ab") as file:
        file.write(b"torn")
    assert host_log.read(path) == notes
    log.cut(2)
    log.append(notes[2])
    assert host_log.read(path) == notes
    log.close()


def test_ring_and_log_must_agree() -> None:
    notes = notes_of(0, 3)
    made = sum(note.samples for note in notes)
    assert host_log.made_notes([], 0, 0) == 0
    assert host_log.made_notes(notes, made, 9) == 3
    assert host_log.made_notes(notes, made - notes[-1].samples, 9) == 2
    for wrong in ((made, 8), (made + 1, 9), (0, 9)):
        with pytest.raises(LogError):
            host_log.made_notes(notes, *wrong)
