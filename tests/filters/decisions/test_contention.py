"""Contention rule: cases by hand, random histories against a plain transcription, missing signals."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acquisition.model.derived import WAITING
from acquisition.model.inputs import DecisionInputs
from filters.decisions.overload_detection import contention, threshold
from filters.decisions.overload_detection.contention import RULE
from filters.decisions.overload_detection.rule_inputs import level
from filters.decisions.picture import CPU, DOWN, MEMORY, NETWORK, Host, Reading
from filters.decisions.verdict import ABSTAINED, HOT, NOT_HOT, SATURATED, SUSPECT, Outcome, Verdict
from filters.documents.verdicts import host_document
from tests.support.pictures import constant, host, inputs, reading

GUESTS = "vms_suffering_ratio"


def node(cpu: float, waiting: float | None = None, cores: float = 64.0, **signals: float) -> Host:
    """A host on which everything has been the same for thirty seconds."""
    known = signals if waiting is None else {WAITING: waiting, **signals}
    extra = {metric: constant(metric, value) for metric, value in known.items()}
    return host("node7", cpu=cpu, memory=signals.get(MEMORY, 0.4), cores=cores, extra=extra)


def ask(subject: Host, was_hot: bool = False, **changes: Any) -> Verdict:
    return RULE.judge(subject, msgspec.structs.replace(RULE.defaults, **changes), was_hot)


def outcomes(verdict: Verdict) -> list[Outcome]:
    return [part.outcome for part in verdict.parts]


def test_busy_is_not_bad_and_waiting_is() -> None:
    calm = ask(node(0.92, 0.02, **{GUESTS: 1.2}))
    assert calm.outcome is SATURATED
    assert calm.reason == "saturated without harm: guests of node7 wait 2% of the time; CPU 92% of 64 cores"
    harmed = ask(node(0.81, 0.11, 4.0, **{GUESTS: 0.4}))
    assert harmed.outcome is HOT
    assert harmed.reason == "guests of node7 wait 11% of the time; CPU 81% of 4 cores"
    assert harmed.figures[0].name == f"{WAITING} mean"
    assert outcomes(harmed) == [HOT, NOT_HOT, NOT_HOT]
    assert ask(node(0.3, 0.2)).outcome is NOT_HOT  # a host that is idle has no work to give away


def test_fresh_plateau_that_harms_is_no_saturation() -> None:
    waiting = reading(WAITING, [0.0] * 26 + [0.1] * 4, mean=0.06)
    lately = reading(CPU, [0.6] * 26 + [0.95] * 4, mean=0.76)
    assert ask(host("h", extra={CPU: lately, WAITING: waiting})).outcome is HOT


def test_level_decides_where_waiting_is_unknown() -> None:
    for cpu, outcome in ((0.95, HOT), (0.5, NOT_HOT)):
        verdict = ask(node(cpu))
        assert verdict.outcome is outcome is threshold.RULE.judge(node(cpu), threshold.RULE.defaults).outcome
        assert f"waiting is unknown (MISSING: node7 has no {WAITING})" in verdict.parts[0].reason
    assert "whether guests wait is unknown" in ask(node(0.95)).reason


def test_hot_stays_hot_down_to_half_of_the_limit() -> None:
    for waiting, cpu, outcome in ((0.03, 0.78, HOT), (0.02, 0.78, NOT_HOT), (0.03, 0.74, NOT_HOT)):
        lately = reading(WAITING, [0.2] * 10 + [waiting] * 20)
        subject = host("h", cpu=cpu, extra={WAITING: lately})
        assert ask(subject, True).outcome is outcome
        assert ask(subject).outcome is NOT_HOT
    assert ask(node(0.78, 0.03), True).outcome is NOT_HOT  # it was hot by something else


def test_what_was_hot_by_one_part_is_not_held_by_another() -> None:
    signals = {MEMORY: 0.93, "cpu_steal_ratio": 0.08, "pressure_memory_some_ratio": 0.08, NETWORK: 0.85}
    assert ask(node(0.5, 0.0, **signals), True).outcome is NOT_HOT


@pytest.mark.parametrize(
    ("signal", "limit", "part"),
    [
        ("cpu_steal_ratio", 0.1, 0), (MEMORY, 0.95, 1), ("pressure_memory_some_ratio", 0.1, 1),
        ("swap_in_bytes_per_second", 1e7, 1), (NETWORK, 0.9, 2),
    ],
)  # fmt: skip
def test_each_further_signal_alone_makes_a_host_hot(signal: str, limit: float, part: int) -> None:
    other = {"swap_out_bytes_per_second": 0.0}
    above = ask(node(0.3, 0.0, **{**other, signal: 1.04 * limit}))
    assert (above.outcome, above.parts[part].outcome) == (HOT, HOT)
    assert signal in above.figures[0].name
    assert "node7" in above.reason or "%" in above.reason
    assert ask(node(0.3, 0.0, **{**other, signal: 0.9 * limit})).outcome is NOT_HOT


def test_first_value_beyond_a_limit_is_suspect() -> None:
    kept = inputs(threshold=0.9, counted=8, counted_valid=8, plateau=4, lowest=0.6, highest=0.95, above=1)
    step = reading(CPU, mean=0.67, last=0.95, inputs=kept._replace(time_above_seconds=1.0))
    for waiting in (None, 0.0):
        subject = node(0.6, waiting)
        verdict = ask(subject._replace(readings={**subject.readings, CPU: step}))
        assert (verdict.outcome, verdict.lasting) == (SUSPECT, 1.0)
        assert "CPU 67% of 64 cores, above 90% for 1 s" in verdict.reason
    first = reading(WAITING, [0.0] * 29 + [0.2], mean=0.03)
    assert ask(host("h", cpu=0.85, extra={WAITING: first})).outcome is SUSPECT
    assert ask(host("h", cpu=0.75, extra={WAITING: first})).outcome is NOT_HOT
    assert ask(host("h", cpu=0.85, extra={WAITING: first._replace(validity="RANGE")})).outcome is NOT_HOT


@pytest.mark.parametrize(
    ("signal", "value"),
    [("cpu_steal_ratio", 0.6), ("pressure_memory_some_ratio", 0.6), ("swap_in_bytes_per_second", 6e7)],
)
def test_single_value_is_suspect_and_one_that_stays_is_hot(signal: str, value: float) -> None:
    mean, variance, found = 0.0, 0.0, []
    for last in [0.0, value, 0.0, 0.0, *[value] * 5]:
        part = 1.0 - math.exp(-1.0 / 5.0)  # the filter's averages at one value a second
        variance = (1.0 - part) * (variance + part * (last - mean) ** 2)
        mean += part * (last - mean)
        shown = reading(signal, mean=mean, deviation=math.sqrt(variance), last=last)
        # a steady trickle of swap says nothing of the other direction
        calm = {name: constant(name, 5.0 * (name != WAITING)) for name in (WAITING, "swap_out_bytes_per_second")}
        found.append(ask(host("h", cpu=0.3, extra={**calm, signal: shown})).outcome)
    assert HOT not in found[:6]
    assert found[1] is SUSPECT
    assert found[-1] is HOT


@pytest.mark.parametrize("kept", [None, inputs(threshold=0.1, above=8, counted=8, counted_valid=8)])
def test_waiting_that_the_filter_does_not_count_abstains(kept: DecisionInputs | None) -> None:
    waiting = reading(WAITING, mean=0.3, last=0.3, inputs=kept)
    verdict = ask(host("h", cpu=0.85, cores=4.0, extra={WAITING: waiting}))
    assert verdict.outcome is ABSTAINED
    assert WAITING in verdict.reason


def test_unknown_cpu_abstains_unless_another_part_is_hot() -> None:
    whole = node(0.5, 0.0)
    blind = whole._replace(readings={name: each for name, each in whole.readings.items() if name != CPU})
    verdict = ask(blind)
    assert (verdict.outcome, verdict.reason) == (ABSTAINED, f"MISSING: node7 has no {CPU}")
    full = blind._replace(readings={**blind.readings, MEMORY: constant(MEMORY, 0.99)})
    verdict = ask(full)
    assert (verdict.outcome, outcomes(verdict)) == (HOT, [ABSTAINED, HOT, NOT_HOT])
    assert ask(full._replace(state=DOWN)).outcome is ABSTAINED


def test_reason_of_an_abstention_stands_once() -> None:
    whole = node(0.5, 0.0)
    blind = whole._replace(readings={name: each for name, each in whole.readings.items() if name != CPU})
    document = json.loads(msgspec.json.encode(host_document(blind, ask(blind))))
    assert document["reason"] == f"MISSING: node7 has no {CPU}"
    assert document["parts"][0] == {"name": "cpu", "outcome": "abstained"}
    assert document["parts"][1]["reason"] == "memory 40% used"


def test_metric_of_the_level_is_fixed() -> None:
    with pytest.raises(ValueError, match="metric is always cpu_busy_ratio"):
        contention.Parameters(metric=MEMORY)


loads = st.sampled_from([0.3, 0.7, 0.79, 0.82, 0.88, 0.91, 0.95, 0.99])
shares = st.sampled_from([0.0, 0.01, 0.03, 0.04, 0.06, 0.2, 0.6])


def is_busy(values: Sequence[float], mean: float, was_hot: bool) -> bool:
    """The threshold rule with its defaults, of thirty values."""
    last = values[-4:]
    if min(last) > 0.9 and max(last) - min(last) < 0.07:
        return True
    above = sum(value > 0.9 for value in values[-8:])
    if was_hot:
        return mean > 0.8 and (above > 0 or float(np.quantile(values, 0.75)) > 0.9)
    return mean > 0.8 and above >= 6


def expected(busy: Sequence[float], u: float, waiting: Sequence[float], w: float, was_hot: bool) -> Outcome:
    level_hot = is_busy(busy, u, was_hot)
    confirmed = (w > 0.05 and sum(value > 0.05 for value in waiting[-8:]) >= 6) or min(waiting[-4:]) > 0.05
    lately = sum(value > 0.05 for value in waiting[-8:]) > 0 or float(np.quantile(waiting, 0.75)) > 0.05
    held = was_hot and ((w > 0.025 and lately) or min(waiting[-4:]) > 0.05)
    waits = confirmed or held or (level_hot and w > 0.05)
    if waits and u > (0.75 if was_hot else 0.8):
        return HOT
    if waiting[-1] > 0.05 and u > 0.8:
        return SUSPECT
    if level_hot:
        return SATURATED
    return SUSPECT if busy[-1] > 0.9 else NOT_HOT


@given(
    st.lists(loads, min_size=30, max_size=30), loads, st.lists(shares, min_size=30, max_size=30), shares, st.booleans()
)
def test_cpu_part_is_its_transcription(
    busy: list[float], u: float, waiting: list[float], w: float, was_hot: bool
) -> None:
    subject = node(0.5)
    readings = {CPU: reading(CPU, busy, mean=u), WAITING: reading(WAITING, waiting, mean=w)}
    verdict = ask(subject._replace(readings={**subject.readings, **readings}), was_hot)
    assert verdict.parts[0].outcome is verdict.outcome is expected(busy, u, waiting, w, was_hot)


SIGNALS = (
    CPU, WAITING, GUESTS, MEMORY, NETWORK, "cpu_steal_ratio", "pressure_memory_some_ratio", "swap_in_bytes_per_second",
    "swap_out_bytes_per_second", "cpu_count",
)  # fmt: skip
STATES = st.sampled_from(["there", "never", "gone", "old", "failed"])


def changed(found: Reading, state: str) -> Reading | None:
    """A reading that is as ``state`` says."""
    if state == "gone":
        return None
    if state == "never":
        return Reading(found.metric)
    if state == "old":
        return found._replace(stale_seconds=60.0, validity="MISSING", last=None)
    return found._replace(validity="RANGE", last=1e9) if state == "failed" else found


@given(st.lists(STATES, min_size=len(SIGNALS), max_size=len(SIGNALS)), st.booleans(), st.sampled_from([0.3, 0.97]))
def test_missing_signal_is_never_a_value(states: list[str], was_hot: bool, value: float) -> None:
    whole = {metric: constant(metric, value) for metric in SIGNALS}
    found = {metric: changed(whole[metric], state) for metric, state in zip(SIGNALS, states, strict=True)}
    subject = Host("n", "n", readings={metric: each for metric, each in found.items() if each is not None})
    verdict = ask(subject, was_hot)
    assert verdict.reason
    assert len(verdict.parts) == 3
    used = {each.metric for each in subject.readings.values() if each.stale_seconds == 0.0}
    for part, metric in zip(verdict.parts, (CPU, MEMORY, NETWORK), strict=True):
        assert part.reason
        assert (part.outcome is ABSTAINED) == (metric not in used)
    assert (verdict.outcome is ABSTAINED) == (CPU not in used and HOT not in outcomes(verdict))
    for figure in verdict.figures:
        if figure.validity == "VALID" and figure.value is not None and figure.name.endswith(" mean"):
            assert figure.value == level(whole[figure.name.removesuffix(" mean")], True)
