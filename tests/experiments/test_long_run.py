"""A short long run with everything in it, and when a series counts as flat."""

import json
import subprocess
import sys

import pytest

from experiments.long_run.flatness import judge
from experiments.long_run.series import write

HOUR = [float(at) for at in range(0, 3600, 10)]


def growing(rate_per_hour, start=100e6):
    return [start * (1 + rate_per_hour * at / 3600) for at in HOUR]


def test_noise_and_what_happens_while_it_settles_are_no_growth():
    values = [100e6 + 4e5 * (i % 5) - (8e7 if at < 250 else 0) for i, at in enumerate(HOUR)]
    found = judge(HOUR, values, 3600)
    assert found is not None
    assert found.flat
    assert found.early == pytest.approx(1.008e8, rel=0.01)


@pytest.mark.parametrize(("rate", "flat"), [(0.015, True), (0.05, False), (-0.2, True)])
def test_steady_growth_of_more_than_two_per_cent_is_not_flat(rate, flat):
    found = judge(HOUR, growing(rate), 3600)
    assert found is not None
    assert found.flat is flat
    assert found.slope_per_hour == pytest.approx(rate / (1 + rate / 12), rel=0.02)


def test_a_step_near_the_end_is_seen_by_the_medians():
    found = judge(HOUR, [100e6 * (1.03 if at > 3200 else 1) for at in HOUR], 3600)
    assert found is not None
    assert found.growth == pytest.approx(0.03)
    assert not found.flat


@pytest.mark.few
def test_seconds_with_hosts_that_vanish_and_pids_that_come_back(tmp_path):
    from experiments.long_run.plot import draw  # with matplotlib: for whoever runs it alone

    command = (
        "-m experiments.long_run --seconds 7 --every 0.2 --hosts 12 --entities 11 --metrics 5 --vanishing 2 "
        "--cohorts 2 --processes 3 --replace 0.5 --shards 2 --json"
    )
    done = subprocess.run([sys.executable, *command.split()], capture_output=True, text=True, check=False, timeout=120)
    document = json.loads(done.stdout)
    young = (" is not flat", " too few rows")  # streams still fill, and there are few rows
    assert [found for found in document["failures"] if not any(text in found for text in young)] == [], done.stderr
    assert document["hosts_vanished"] == 4
    assert document["samples_lost"] == document["samples_unaccounted"] == document["mismatches"] == 0
    assert document["probe_samples_made"] > 0
    assert document["processes_replaced"] >= 3
    assert set(document["memory"]) <= {"probe_rss", "filter_rss", "shards_rss", "shards_used_memory"}
    assert done.returncode == (0 if document["passed"] else 1)
    series = [{"seconds": at, **dict.fromkeys(_SERIES, 1e7 + at)} for at in range(10)]
    write(tmp_path / "run.csv", series)
    draw(series, document, tmp_path / "run.png")
    assert (tmp_path / "run.csv").read_text().count("\n") == 11
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


_SERIES = (
    "probe_rss", "probe_pss", "probe_anonymous", "filter_rss", "filter_pss", "filter_anonymous", "shards_rss",
    "shards_used_memory", "keys", "members", "entries",
)  # fmt: skip
