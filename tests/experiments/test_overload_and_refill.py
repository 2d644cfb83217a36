"""A short run of the experiment: overload is chosen, and accounted for."""

from __future__ import annotations

from experiments.overload.run import run as overload
from experiments.overload.scenario import Scenario
from experiments.overload.verdict import judge


def test_the_talkative_shed_what_is_too_much_and_every_sample_is_accounted_for(tmp_path):
    scenario = Scenario(calm_seconds=1, high_seconds=10, after_seconds=5, shed_after=2.5, position_interval=1.0)
    rows, final = overload(scenario, tmp_path)
    figures = judge(scenario, rows, final)
    assert figures["samples_shed"] == figures["samples_lost"] > 0
    assert figures["samples_unaccounted"] == figures["samples_dropped"] == 0
    assert figures["shed_share"]["talkative"] > 2 * figures["shed_share"]["quiet"]
    told = [row["shedding_talkative"] for row in rows]
    assert max(*told, final["shedding"]["talkative"]) > 0  # readers are told
    assert max(figures["worst_age_p99_seconds"].values()) < 12.0
    last_high = max(number for number, row in enumerate(rows) if row["high"])
    assert min(row["shed_share_talkative"] for row in rows[last_high + 1 :]) < 1.0  # afterwards not all is shed
