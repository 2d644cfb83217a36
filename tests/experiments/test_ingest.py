"""Short runs of the benchmark through the real pipeline: emulated probes, shards, filter, snapshot."""

import json
import subprocess
import sys

import pytest

from acquisition.errors import UsageError
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
