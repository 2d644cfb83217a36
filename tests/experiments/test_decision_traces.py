"""Five-minute traces of real VMs, and recordings of our own probe."""

import os
import tarfile

import numpy as np
import pytest

from acquisition.errors import DataError
from experiments.decisions import recording, traces
from experiments.decisions.programs import Ran
from experiments.decisions.recorder import digest, record
from experiments.decisions.recording import Recording
from tests.support import FIXTURES

FIXTURE = FIXTURES / "planetlab" / "20110303"


def test_a_day_is_read_from_a_directory_its_parent_or_an_archive(tmp_path):
    (day,) = traces.read_days(FIXTURE)
    assert day.name == "20110303"
    assert day.percent.shape == (8, 288)
    archive = tmp_path / "days.tar.xz"
    with tarfile.open(archive, "w:xz") as file:
        file.add(FIXTURE, "20110303")
        file.add(FIXTURE, "20110306")
    days = traces.read_days(archive)
    assert [each.name for each in days] == ["20110303", "20110306"]
    assert np.array_equal(days[1].percent, day.percent)


@pytest.mark.parametrize(
    ("text", "told"),
    [("12\nabc\n", "abc"), ("50\n" * 12 + "101\n", "value 13 is 101"), ("50\n" * 5, "5 values"), ("nan\n" * 20, "nan")],
)
def test_what_is_no_trace_is_told_with_its_name(tmp_path, text, told):
    (tmp_path / "vm_1").write_text(text)
    with pytest.raises(DataError, match=told) as error:
        traces.read_days(tmp_path)
    assert "vm_1" in str(error.value)


def a_recording(seconds=300):
    slots = np.zeros((seconds, 2), np.float32)
    slots[100:200, 0] = 1.0
    slots[150:153, 1] = 1.0
    return Recording({"cores": "2"}, slots.sum(1) / 2, np.ones(seconds, bool), slots)


def test_a_recording_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "hour.csv"
    recording.write(path, a_recording())
    again = recording.read(path)
    assert again.facts == {"cores": "2"}
    assert np.array_equal(again.slots, a_recording().slots)
    assert again.valid.all()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "no header"),
        ("second,busy,valid,slot_1\n0,0.5,1,0.2\n1,x,1,0.2\n", "line 3"),
        ("second,busy,valid,slot_1\n0,0.5,1,0.2\n1,0.5,1\n", "line 3"),
        ("second,busy,valid,slot_1\n0,0.5,1,-1\n1,0.5,1,0\n", "line 2"),
        ("second,busy,valid,slot_1\n0,0.5,1,0.2\n", "too few"),
    ],
)
def test_what_is_no_recording_is_told(tmp_path, text, told):
    path = tmp_path / "hour.csv"
    path.write_text(text)
    with pytest.raises(DataError, match=told):
        recording.read(path)


def host(tick, idle):
    metrics = {} if idle is None else {"cpu_idle_ratio": idle, "cpu_iowait_ratio": 0.1}
    entity = {"name": "h", "kind": "host", "stable": "h", "metrics": metrics, "invalid": {}}
    return {"time": float(tick), "tick": tick, "resource_set": "host", "entities": [entity]}


def processes(tick, cores):
    entities = [
        {"name": "p", "kind": "process", "stable": f"h:{pid}", "metrics": {"cpu_ratio": value}, "invalid": {}}
        for pid, value in cores.items()
    ]
    return {"time": float(tick), "tick": tick, "resource_set": "processes", "entities": entities}


def test_what_the_probe_says_becomes_slots():
    readings = [host(1, None), processes(1, {}), host(2, 0.4), processes(2, {7: 0.5, 8: 0.9}), host(3, None)]
    found = digest(readings, [Ran(1, "xz", 7, 1.2, 2.5), Ran(0, "awk", 8, 2.4, 9.0)], 2, {})
    assert found.busy == pytest.approx([0.5, 0.0])
    assert list(found.valid) == [True, False]
    assert found.slots == pytest.approx(np.array([[0.0, 0.5], [0.0, 0.0]]))


def test_a_few_seconds_of_real_programs(tmp_path):
    path = tmp_path / "seconds.csv"
    record(path, 4, 2, seed=3)
    found = recording.read(path)
    assert len(found.busy) == 4
    assert found.valid.all()
    assert 0.0 < found.busy.max() <= 1.0
    assert found.facts["cores"] == str(os.cpu_count())
    assert found.slots.shape == (4, 2)
