"""Short runs of the benchmark through the real pipeline: emulated probes, shards, filter, snapshot."""

import json
import subprocess
import sys
import time

import pytest

from acquisition.errors import UsageError
from experiments.emulation.pacing import ClosedLoop, Paced
from experiments.harness import ingestion
from experiments.harness.options import Options
from experiments.ingest import main, parse
from experiments.processes import access

SMALL = Options(hosts=20, entities=21, metrics=5, seconds=2.0, warmup=1.0, shards=2, seed=7)


def test_a_paced_run_loses_nothing_and_equals_the_scalar_model():
    command = "-m experiments.ingest --hosts 20 --entities 101 --metrics 15 --seconds 3 --warmup 1 --shards 2 --json"
    done = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    assert document["passed"]
    assert document["samples_lost"] == document["samples_duplicated"] == document["mismatches"] == 0
    assert document["checked_samples"] == 100 * 15
    made = document["samples_made"]
    assert document["samples_applied"] == made
    assert 0.005 * made < document["samples_invalid"] < 0.02 * made
    assert document["samples_offered_per_second"] == pytest.approx(20 * 101 * 15, rel=0.1)
    assert document["samples_smoothed_per_second"] == pytest.approx(20 * 101 * 15, rel=0.25)
    assert 0.0 < document["freshness_ms"]["p50"] <= document["freshness_ms"]["p99"] <= document["freshness_ms"]["max"]
    assert set(document["cpu_seconds_per_million_samples"]) == {"generator", "shards", "filter", "reader"}
    assert document["machine"]["redis_server"]
    assert document["shard_commands"]["xadd"]["calls_per_second"] == pytest.approx(20, rel=0.25)
    assert document["command"].startswith("python -m experiments.ingest --hosts 20")


def test_a_closed_loop_offers_what_is_smoothed_and_profiles():
    options = Options(
        hosts=10, entities=21, metrics=5, rate=0.0, seconds=2.0, warmup=1.0, profile=True, outstanding_frames=16
    )
    run = ingestion.measure(options)
    assert run["failures"] == []
    figures = run["figures"]
    of_each, under_way = 10 * 21 * 5, 10 * 21 * 5 * options.outstanding
    assert figures["samples_smoothed_per_second"] > 3 * of_each  # how many it is says how busy the machine is
    behind = figures["samples_offered_per_second"] - figures["samples_smoothed_per_second"]
    assert abs(behind) * figures["seconds"] <= 2 * under_way  # the two are counted one after the other
    assert set(run["profiles"]) == {"generator", "filter"}
    assert all(profile["samples"] for profile in run["profiles"].values())


def test_several_filters_and_generators_share_the_work():
    run = ingestion.measure(Options(hosts=12, entities=5, metrics=3, seconds=2.0, warmup=1.0, filters=2, generators=2))
    assert run["failures"] == []


@pytest.mark.parametrize("rate", [1.0, 0.0])
def test_lean_hosts_make_the_same_frames(rate):
    run = ingestion.measure(Options(hosts=12, entities=5, metrics=3, rate=rate, seconds=2.0, warmup=1.0, lean=True))
    assert run["failures"] == []
    assert run["figures"]["checked_samples"] == 100 * 3


@pytest.mark.skipif(bool(access.missing()), reason=access.missing())
@pytest.mark.parametrize("lean", [False, True])
def test_over_tls_every_part_is_a_user_of_its_own(lean):
    run = ingestion.measure(Options(hosts=12, entities=5, metrics=3, seconds=2.0, warmup=1.0, tls=True, lean=lean))
    assert run["failures"] == []
    assert run["figures"]["checked_samples"] == 100 * 3


def test_a_filter_with_another_time_constant_fails_the_run(tmp_path):
    wrong = tmp_path / "filter.toml"
    wrong.write_text("[filter]\ntau_seconds = 4.0\n")
    run = ingestion.measure(Options(**{**vars(SMALL), "filter_config": str(wrong)}))
    assert not run["passed"]
    assert run["figures"]["mismatches"] > 0.9 * run["figures"]["checked_samples"]
    assert "differ from the scalar model" in run["failures"][0]


@pytest.mark.parametrize(
    "argv",
    [
        ["--rate", "fast"],
        ["--tls", "--filter-config", "some.toml"],
        ["--rate", "-1"],
        ["--hosts", "0"],
        ["--seconds", "0"],
        ["--invalid", "2"],
        ["--pin", "shards=1"],
        ["--pin", "filter=x"],
    ],
)
def test_wrong_options_are_refused(argv, capsys):
    with pytest.raises(UsageError):
        parse(argv)
    assert main(argv) == 2
    assert argv[0] in capsys.readouterr().err


def test_options_of_the_two_kinds_of_load():
    paced, _ = parse(["--rate", "4", "--pin", "generator=0,filter=1"])
    assert paced.workload.interval == 0.25
    assert not paced.closed_loop
    assert paced.pins == {"generator": 0, "filter": 1}
    closed, _ = parse(["--rate", "max", "--hosts", "1000"])
    assert closed.closed_loop
    assert closed.outstanding == 12


def test_a_host_of_the_closed_loop_counts_its_frames_as_a_real_one_counts_seconds():
    class Host:
        index, number, due, made = 0, 7, float("inf"), 0

        def waiting(self):
            return 0

    class Fleet:
        hosts = (Host(),)

        def __init__(self):
            self.seen = []

        def sample(self, host, tick, wall, monotonic, now):
            host.made += 1
            self.seen.append((tick, wall, monotonic))

        def attend(self, seconds):
            return False

    began = time.time()
    fleet = Fleet()
    ClosedLoop(fleet, 1.0, 4).run(lambda orders: len(fleet.seen) == 3)
    ticks, walls, clocks = zip(*fleet.seen, strict=True)
    assert [tick - ticks[0] for tick in ticks] == [0, 1, 2]
    assert [clock - clocks[0] for clock in clocks] == [0.0, 1.0, 2.0]
    assert began <= walls[0] <= walls[2] <= time.time()  # freshness is measured by it


class PacedHost:
    due = float("inf")

    def __init__(self, index):
        self.index = self.number = index

    def early(self):
        return 0.0


class PacedFleet:
    """Notes who samples at which tick, and how many do between two looks at replies; one takes ``seconds``."""

    lag_seconds, missed = 0.0, 0

    def __init__(self, indexes, seconds=0.0):
        self.hosts = [PacedHost(index) for index in indexes]
        self.seconds = seconds
        self.unattended = self.most = 0
        self.seen = {}

    @property
    def made(self):
        return sum(map(len, self.seen.values()))

    def sample(self, host, tick, wall, monotonic, now):
        time.sleep(self.seconds)
        self.seen.setdefault(tick, []).append(host.index)
        self.unattended += 1
        self.most = max(self.most, self.unattended)

    def attend(self, seconds):
        self.unattended = 0
        return False


def test_who_is_late_reads_replies_between_its_frames_all_the_same():
    fleet = PacedFleet(range(300), seconds=0.0005)  # more than there is for each
    Paced(fleet, 0.1).run(lambda orders: fleet.made >= 900)
    assert fleet.lag_seconds > 0.01  # it was late
    assert fleet.most <= 64


def test_hosts_join_one_after_the_other():
    fleet = PacedFleet(range(100, 140))  # a generator's share of all
    Paced(fleet, 0.1, joining=4).run(lambda orders: len(fleet.seen) > 5)
    made = [sorted(fleet.seen[tick]) for tick in sorted(fleet.seen)]
    assert made[:5] == [list(range(100, 100 + count)) for count in (10, 20, 30, 40, 40)]
