"""Evaluation of decisions: contention, truths, scores, and verdicts of the real rule."""

import numpy as np
import pytest

from experiments.decisions.evaluation import closed, contention, judges, scores, truth, watching
from experiments.decisions.evaluation.scenarios import SCENARIOS, Scenario, Size, from_file
from experiments.decisions.evaluation.scenarios.synthetic import noise, spikes
from filters.decisions import overload_detection

SIZE = Size(hosts=4, vms=3, seconds=700)


def served(wanted: float, cores: float, carried: float = 0.0):
    one = np.zeros(1, np.int64)
    return contention.serve(np.array([wanted]), np.array([carried]), one, cores, np.array([cores]), np.zeros(1))


def test_work_beyond_the_cores_waits_and_is_carried_over():
    done = served(3.0, 2.0, carried=0.5)
    assert done.run[0] == 2.0
    assert done.carried[0] == 1.5
    assert done.busy[0] == 1.0


def test_guests_wait_more_on_few_cores_than_on_many():
    few, many = served(0.81 * 4, 4), served(0.92 * 64, 64)
    assert few.delay[0] / few.run[0] > 0.08
    assert many.delay[0] / many.run[0] < 0.03


def test_truth_by_level_needs_ten_seconds():
    work = np.full((60, 2), 0.6)
    work[30:36] = 1.0
    work[30:45, 1] = 1.0
    found = truth.by_level(work)
    assert not found.near[:, 0].any()
    assert found.bad[30:45, 1].all()
    assert found.near[20:45, 1].all()


def test_no_false_alarm_has_an_exact_upper_bound():
    found = scores.rate(np.zeros(100), 1.0)
    assert found[:2] == (0.0, 0.0)
    assert found.high == pytest.approx(3.689, abs=0.01)


def test_split_is_by_generator_and_work_by_seed():
    names = [each.name for each in SCENARIOS]
    assert len(names) == len(set(names))
    assert {each.split for each in SCENARIOS} == {"training", "test"}
    one, again, other = (noise_scenario().work(seed, SIZE).spread for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


def noise_scenario() -> Scenario:
    return Scenario("spiky noise", spikes(0.75, 6.0, per_hour=60.0))


@pytest.mark.parametrize("name", ["threshold"])
def test_array_verdicts_equal_the_real_rule(name):
    scenario = noise_scenario()
    run = watching.watched(scenario, scenario.work(3, SIZE), 3, SIZE)
    single = judges.Judge(name, judges.each_host(overload_detection.rules()[name]))
    fast, real = (watching.alarms(judge, run, 1) for judge in (judges.rule(name), single))
    assert fast.any()
    assert (fast == real).all()


def test_closed_loop_counts_moves_and_waiting():
    scenario = Scenario("busy", noise(0.6, 0.02))
    size = Size(hosts=7, vms=5, seconds=1250)
    (row,) = closed.compare(scenario, [judges.rule("threshold")], [1], size)
    assert row["waiting_seconds"].value > 0.0
    assert row["moves"].value >= 1.0


def test_scenarios_of_a_file_replace_the_table(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from experiments.decisions.evaluation.scenarios.work import Scenario\n"
        "from experiments.decisions.evaluation.scenarios.synthetic import noise\n"
        "SCENARIOS = [Scenario('mine', noise(0.7, 0.1))]\n"
    )
    assert [each.name for each in from_file(path)] == ["mine"]
