"""Evaluation of decisions: contention, truths, scores, the product's own filter step, and a short run of everything."""

import json
import math
import tarfile

import numpy as np
import pytest

from acquisition.errors import DataError, NoInputError
from acquisition.model import codes
from experiments.decisions import __main__ as program
from experiments.decisions import closed, judges, report, scores, truth, watching
from experiments.decisions.hosts import Hosts, guests_of
from experiments.decisions.scenarios import (
    SCENARIOS,
    Faults,
    Scenario,
    Size,
    Step,
    Work,
    from_file,
    measured,
    with_steps,
)
from experiments.decisions.scenarios.measured import VARIABLE
from experiments.decisions.scenarios.synthetic import noise, spikes
from experiments.harness import outcome
from experiments.simulation import contention
from experiments.simulation.filtering import Columns, Filtered, id_of
from filters.decisions import overload_detection
from filters.decisions.deciding import judge_all
from tests.support import FIXTURES

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
    assert few.delay[0] / (few.run + few.delay)[0] == pytest.approx(0.11, abs=0.01)
    assert many.delay[0] / (many.run + many.delay)[0] < 0.02


def test_truth_by_level_needs_ten_seconds():
    work = np.full((60, 2), 0.6)
    work[30:36] = 1.0
    work[30:45, 1] = 1.0
    found = truth.by_level(work)
    assert not found.near[:, 0].any()
    assert found.bad[30:45, 1].all()
    assert found.near[20:45, 1].all()
    assert [each.host for each in truth.onsets(found)] == [1]


def test_truth_by_harm_is_waiting_of_guests():
    delay, run = np.zeros((60, 2)), np.full((60, 2), 10.0)
    delay[30:40] = (0.4, 0.6)
    found = truth.by_harm(delay, run)
    assert not found.bad[:, 0].any()
    assert found.bad[30:40, 1].all()


def test_no_false_alarm_has_an_exact_upper_bound():
    found = scores.rate(np.zeros(100), 1.0)
    assert found[:2] == (0.0, 0.0)
    assert found.high == pytest.approx(3.689, abs=0.01)


def test_delay_counts_from_within_the_second_of_the_onset():
    hot = np.zeros((60, 1), np.bool_)
    hot[25:30] = True
    assert scores.delay(Step(0, 20.25, 50), hot) == 5.75
    assert scores.delay(Step(0, 27.5, 50), hot) == 0.0
    assert scores.delay(Step(0, 40.0, 50), hot) == math.inf


def test_missed_steps_count_in_percentiles():
    assert scores.percentile([1.0, 2.0, math.inf], 50).value == 2.0
    assert scores.percentile([1.0, 2.0, math.inf], 95).value is None


def test_split_is_by_generator_and_work_by_seed():
    names = [each.name for each in SCENARIOS]
    assert len(names) == len(set(names))
    assert {each.split for each in SCENARIOS} == {"training", "test"}
    assert 0.3 < sum(each.pressure for each in SCENARIOS) / len(SCENARIOS) < 0.7
    one, again, other = (spiky().work(seed, SIZE).spread for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.name[:4] not in ("Plan", "Alib")])
def test_every_generator_makes_work_of_its_size(scenario):
    work = scenario.work(7, SIZE)
    assert 0.2 < (work.spread + work.bursts).mean() < 0.95
    assert scenario.faults(7, SIZE).codes.shape == work.spread.shape


def test_steps_rise_from_within_a_second_to_their_level():
    size = SIZE._replace(seconds=2400)
    risen, steps = with_steps(noise(0.6, 0.0)(np.random.default_rng(1), size), 1, 2, 0.95)
    assert len(steps) == 4
    first = int(steps[0].start)
    column = risen.spread[:, steps[0].host]
    assert column[first] == pytest.approx(0.6 + 0.35 * (first + 1 - steps[0].start), abs=1e-5)
    assert column[first + 1 : steps[0].after] == pytest.approx(0.95, abs=1e-5)


def spiky(**faults: float) -> Scenario:
    return Scenario("spiky noise", spikes(0.75, 6.0, per_hour=60.0), **faults)


def columns_of(scenario: Scenario, seed: int, size: Size) -> list[tuple[Columns, Columns]]:
    guests = guests_of(seed, size)
    hosts = Hosts(scenario.work(seed, size), guests, size, scenario)
    faults = scenario.faults(seed, size)
    made = []
    for second in range(size.seconds):
        done = hosts.second(second, np.zeros(size.hosts))
        made.append((hosts.host_columns(done, faults, second), hosts.guest_columns(done, faults, second)))
    return made


def rows(columns: Columns, chosen: slice) -> Columns:
    return Columns({name: each[chosen] for name, each in columns.values.items()}, columns.codes[chosen])


@pytest.mark.parametrize("name", sorted(overload_detection.REGISTRY))
def test_verdicts_are_those_of_frames_of_single_hosts_with_gaps(name):
    """A host whose ticks never came has the verdicts of a row whose samples are missing."""
    scenario, found = spiky(gaps=0.05, invalid=0.05), overload_detection.rules()[name]
    samples = columns_of(scenario, 3, SIZE._replace(seconds=400))
    place, observed = np.repeat(np.arange(SIZE.hosts), SIZE.vms), np.full(SIZE.hosts * SIZE.vms, 1000)
    whole = Filtered(SIZE.hosts, SIZE.hosts * SIZE.vms, 1, found.history)
    singles = [Filtered(1, SIZE.vms, 1, found.history) for _ in range(SIZE.hosts)]
    hot = [frozenset[str]() for _ in range(SIZE.hosts + 1)]
    outcomes = set()
    for second, (hosts, guests) in enumerate(samples):
        whole.take(second, hosts, guests)
        together = judge_all(whole.picture(second, place, observed), found, found.defaults, hot[-1])
        hot[-1] = together.hot
        for host, single in enumerate(singles):
            if hosts.codes[host] == codes.MISSING:
                continue
            part = slice(host * SIZE.vms, (host + 1) * SIZE.vms)
            single.take(second, rows(hosts, slice(host, host + 1)), rows(guests, part))
            picture = single.picture(second, place[: SIZE.vms], observed[: SIZE.vms])
            alone = judge_all(picture, found, found.defaults, hot[host])
            hot[host] = alone.hot
            verdict, expected = alone.verdicts[id_of(0)], together.verdicts[id_of(host)]
            outcomes.add(verdict.outcome)
            assert repr(verdict).replace("h0", f"h{host}") == repr(expected), second
    assert len(outcomes) > 1


def test_guests_carry_the_product_names_and_where_they_are():
    sampled = columns_of(spiky(), 3, SIZE._replace(seconds=3))
    seen = Filtered(SIZE.hosts, SIZE.hosts * SIZE.vms, 1, False)
    for second, (hosts, guests) in enumerate(sampled):
        seen.take(second, hosts, guests)
    place = np.repeat(np.arange(SIZE.hosts), SIZE.vms)
    place[0] = 2
    picture = seen.picture(2, place, np.arange(SIZE.hosts * SIZE.vms))
    assert [len(host.vms) for host in picture.hosts] == [2, 3, 4, 3]
    guest = next(vm for vm in picture.hosts[2].vms if vm.id == "vm-0")
    assert guest.readings["vcpu_delay_ratio"].last is not None
    assert 0.0 < guest.readings["cpu_busy_ratio"].mean < 1.0
    readings = picture.hosts[0].readings
    assert readings["memory_used_ratio"].inputs is not None
    assert readings["vms_suffering_ratio"].validity == "VALID"


def test_what_kernel_and_libvirt_do_not_keep_is_missing():
    size = SIZE._replace(seconds=1)
    hosts, guests = columns_of(spiky()._replace(pressure=False, delay=False), 3, size)[0]
    for metric in ("pressure_cpu_some_ratio", "pressure_memory_some_ratio", "vms_suffering_ratio"):
        assert np.isnan(hosts.values[metric]).all()
    assert np.isnan(guests.values["vcpu_delay_ratio"]).all()
    seen = Filtered(SIZE.hosts, SIZE.hosts * SIZE.vms, 1, False)
    seen.take(0, hosts, guests)
    picture = seen.picture(0, np.repeat(np.arange(SIZE.hosts), SIZE.vms), np.zeros(SIZE.hosts * SIZE.vms, np.int64))
    assert picture.hosts[0].readings["vms_suffering_ratio"].validity == "MISSING"


def test_each_judge_calls_a_long_step_hot_and_nobody_does_not():
    calm, size = Scenario("calm", noise(0.6, 0.02)), SIZE._replace(hosts=8, seconds=1300)
    compared = [judges.rule("threshold"), *judges.OTHERS[:6], judges.NOBODY]
    run = watching.run(calm, compared, 3, size)
    found = {each.name: watching.row(calm, each.name, [watching.tally(run, each.name)], 1300) for each in compared}
    assert found["threshold"]["hot_p95"].value < 5.5
    assert found["mean of 1 min at 10 s"]["hot_p95"].value > 30.0
    assert found["nobody"]["hot_missed"] == found["nobody"]["hot_steps"] > 0
    assert all(row["level_false_first_hour"].value == 0.0 for row in found.values())


def test_standing_false_alarm_counts_in_time():
    hot, calm = np.ones((3700, 2), np.bool_), np.zeros((3700, 2), np.bool_)
    run = watching.Watched({"it": watching.Alarms(hot, calm)}, {"level": truth.Truth(calm, calm)}, [], 2)
    found = watching.tally(run, "it")
    assert found.false["level"].tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert found.share["level"] == 1.0


@pytest.mark.parametrize("own", [False, True])
def test_closed_loop_counts_moves_and_waiting(own):
    scenario, size = Scenario("busy", noise(0.6, 0.02)), Size(hosts=7, vms=5, seconds=2450)
    judge = judges.OTHERS[5] if own else judges.rule("threshold")
    done, idle = (closed.run(scenario, each, own and each is judge, 1, size) for each in (judge, judges.NOBODY))
    assert done.moves >= 1.0
    assert idle.moves == 0.0
    assert done.overload_level < idle.overload_level
    assert done.overload_harm < idle.overload_harm
    assert done.waiting_seconds > 0.0


def test_scenarios_of_a_file_are_run_by_name(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from experiments.decisions.scenarios import Scenario\n"
        "from experiments.decisions.scenarios.synthetic import noise\n"
        "SCENARIOS = [Scenario('mine', noise(0.7, 0.1))]\n"
    )
    assert [each.name for each in from_file(path)] == ["mine"]
    for wrong, words in (("1", "SCENARIOS"), ("Scenario('mine', noise(0.7, 0.1), gaps=0.9)", "gaps to 0.5")):
        path.write_text(path.read_text().rpartition("[")[0] + f"[{wrong}]\n")
        with pytest.raises(DataError, match=words):
            from_file(path)
    with pytest.raises(NoInputError):
        from_file(tmp_path / "none.py")


@pytest.mark.parametrize(("value", "hosts"), [(np.nan, 4), (-0.5, 4), (0.5, 5)])
def test_what_is_no_work_is_refused(value, hosts):
    made = Work(*(np.full((SIZE.seconds, hosts), value, np.float32),) * 2)
    with pytest.raises(DataError, match="scenario mine"):
        Scenario("mine", lambda _draw, _size: made).work(1, SIZE)


def test_machine_usage_is_held_until_the_next_value(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    lines = [f"m_{machine},{second},{20 * machine + second % 7},90,,,43.0,33.1,5" for machine in (1, 2)
             for second in range(0, 30_000, 20 + 30 * machine)]  # fmt: skip
    (tmp_path / "machine_usage.csv").write_text("\n".join([*lines, "m_3,10,,,,,,,"]) + "\n")
    measured._alibaba.cache_clear()
    found = measured._alibaba()
    measured._alibaba.cache_clear()
    assert found.shape == (2992, 2)
    assert found[:6, 0].tolist() == [20.0, 20.0, 20.0, 20.0, 20.0, 21.0]


def test_quick_run_prints_and_saves_every_figure(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(outcome, "RESULTS", tmp_path)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with tarfile.open(tmp_path / "planetlab-day.tar.xz", "w:xz") as file:
        file.add(FIXTURES / "planetlab" / "20110303", "20110303")
    sizes = ["--hosts", "3", "--vms", "2", "--seconds", "600", "--loop-hosts", "2", "--loop-seconds", "600"]
    only = ["--only", "PlanetLab at 0.6", "--only", "Alibaba 2018 at 0.5"]
    page = tmp_path / "detection.md"
    page.write_text(report.PAGE.read_text())
    monkeypatch.setattr(report.write, "__defaults__", (page,))
    command = ["--quick", *sizes, "--report", "--keep", str(tmp_path / "kept")]
    assert program.main([*command, *only]) == 0
    printed = capsys.readouterr().out
    assert "Alibaba 2018 at 0.5: void, machine_usage.csv" in printed
    document = json.loads((tmp_path / "decisions.json").read_text())
    assert {row["judge"] for row in document["watching"]} >= {"contention", "Sandpiper at 10 s", "Neat at 5 min"}
    assert {row["choosing"] for row in document["closed"]} == {"ours", "own"}
    for name in ("detection", "closed"):
        assert (tmp_path / f"decisions-{name}.png").stat().st_size > 5_000
    for name, table in report.tables(document).items():
        assert table in page.read_text(), name
    monkeypatch.setattr(program.watching, "run", None)  # nothing is run twice
    monkeypatch.setattr(program.closed, "run", None)
    assert program.main([*command, *only[:2]]) == 0
    again = json.loads((tmp_path / "decisions.json").read_text())
    assert (again["watching"], again["closed"]) == (document["watching"], document["closed"])


@pytest.mark.parametrize(("before", "delay"), [(1, "∞"), (2, "-")])
def test_delay_that_was_not_measured_is_not_infinite(before, delay):
    row = {"scenario": "s", "judge": "j", "level_false_later": [0.0, 0.0, 1.0]}
    row |= {"hot_p50": [None] * 3, "hot_p95": [None] * 3, "hot_steps": 2, "hot_before": before}
    row |= {"suspect_steps": 0, "suspect_before": 0, "hot_missed": 2 - before}
    for kind in truth.KINDS:
        row |= {f"{kind}_false_first_hour": [0.0] * 3, f"{kind}_false_later": [0.0] * 3, f"{kind}_false_share": 0.0}
        row |= {f"{kind}_overloads": 0, f"{kind}_overloads_missed": 0}
    made = report.tables({"watching": [row], "closed": [], "void": {}})
    assert f"| s | {delay}; 0 |" in made["detectors"]
    assert f"| - | {'∞ / ∞' if delay == '∞' else '-'} |" in made["ours"]


def test_page_quotes_the_committed_result():
    page, document = report.PAGE.read_text(), json.loads((outcome.RESULTS / "decisions.json").read_text())
    for name, table in report.tables(document).items():
        assert table in page, name


def test_a_page_without_a_place_for_a_table_is_refused(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("nothing")
    monkeypatch.setattr(report, "tables", lambda _document: {"ours": ""})
    with pytest.raises(DataError, match="ours"):
        report.write({}, page)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--only none", "'none': expected one of noise"),
        ("--rule none", "'none': expected one of"),
        ("--seconds 5", "600"),
        ("--save mine --report", "--save decisions"),
    ],
)
def test_wrong_options_name_what_is_expected(options, words, capsys):
    assert program.main(options.split()) == 2
    assert words in capsys.readouterr().err


def test_faults_are_as_many_as_asked():
    size = Size(hosts=50, seconds=3600)
    for part in (0.01, 0.1):
        found = Scenario("gaps", noise(0.6, 0.1), gaps=part).faults(1, size)
        assert isinstance(found, Faults)
        assert (found.codes == codes.MISSING).mean() == pytest.approx(part, rel=0.15)
        assert (Scenario("bad", noise(0.6, 0.1), invalid=part).faults(1, size).codes == codes.RANGE).mean() == (
            pytest.approx(part, rel=0.1)
        )
