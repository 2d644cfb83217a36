"""Five-minute traces of real VMs, and recordings of our own probe."""

import os
import tarfile

import numpy as np
import pytest

from acquisition.errors import DataError, NoInputError
from experiments.decisions import recording, traces
from experiments.decisions.detection import observe
from experiments.decisions.programs import Ran
from experiments.decisions.recorder import digest, record
from experiments.decisions.recording import Recording
from experiments.decisions.synthetic import Size
from experiments.decisions.truth import overloads
from tests.support import FIXTURES

FIXTURE = FIXTURES / "planetlab" / "20110303"
SIZE = Size(6, 4, 1500)


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


def test_nothing_to_read(tmp_path):
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(NoInputError):
            traces.read_days(path)
    broken = tmp_path / "broken.tar.xz"
    broken.write_bytes(b"\xfd7zXZ\x00 and then nothing that is xz")
    with pytest.raises(NoInputError, match="broken"):
        traces.read_days(broken)


def test_an_hour_of_a_day_keeps_the_means_and_is_at_sixty_per_cent():
    (day,) = traces.read_days(FIXTURE)
    load = traces.build(day, 101, SIZE)
    level = observe(load).level
    assert level.mean() == pytest.approx(0.6, abs=1e-3)
    assert load.demand.shape == (1500, 24)
    changes = (np.diff(load.level, axis=0) != 0).sum(0)
    assert 1 <= changes.max() <= 1500 // 300 + 1  # a VM changes once in five minutes
    assert np.array_equal(load.demand, traces.build(day, 101, SIZE).demand)


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


def test_what_stays_is_sustained_and_what_does_not_is_not():
    sustained = recording.running_median(a_recording().slots)
    assert np.array_equal(sustained[:, 0], a_recording().slots[:, 0])  # edges stay where they are
    assert not sustained[:, 1].any()


def test_a_data_center_that_plays_a_recording():
    load = recording.build(a_recording(), 101, Size(5, 4, 600))
    assert load.demand.sum(1).mean() / 5 == pytest.approx(0.6, rel=0.01)
    assert overloads(observe(load).level)
    assert load.before.shape == (3600, 5)


def test_a_recording_without_any_program_is_refused():
    idle = a_recording()._replace(slots=np.zeros((300, 2), np.float32))
    with pytest.raises(DataError, match="no program"):
        recording.build(idle, 101, SIZE)


def test_the_texture_of_a_recording():
    busy = a_recording().busy.copy()
    busy[50:52] = 1.0
    found = recording.texture(a_recording()._replace(busy=busy))
    assert found["spikes_per_hour"] == pytest.approx(2 * 12.0)  # 50 to 52 and, with both slots, 150 to 153


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
