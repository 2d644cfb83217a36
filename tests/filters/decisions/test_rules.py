"""Decision rules: cases computed by hand, and random histories against a plain transcription of each formula."""

from __future__ import annotations

import math
import statistics
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters.decisions.overload_detection import (
    REGISTRY,
    cusum,
    neat_iqr,
    neat_mad,
    neat_regression,
    sandpiper,
    threshold,
)
from filters.decisions.overload_detection.order_statistics import median, median_absolute_deviation, quartiles
from filters.decisions.overload_detection.rule import Rule
from filters.decisions.picture import CPU, DOWN, LATE, MEMORY, NETWORK, Host, Reading, Vm
from filters.decisions.verdict import Outcome, Verdict
from tests.support.pictures import constant, host, inputs, reading

loads = st.floats(0.0, 1.0, allow_subnormal=False)
histories = st.lists(loads, min_size=1, max_size=120)


def one(found: Reading, **changes: Any) -> Host:
    """A host with one reading."""
    return Host("h", "h", readings={found.metric: found}, **changes)


def ask(rule: Rule, found: Reading, was_hot: bool = False, **changes: Any) -> Verdict:
    """The verdict of a rule with its defaults, and of ``threshold`` with 0.8, 0.7, 3 of 5 and no plateau."""
    if rule is threshold.RULE:
        changes = {"high": 0.8, "low": 0.7, "k": 3, "n": 5, "enter": None, "plateau": None, **changes}
    return rule.judge(one(found), msgspec.structs.replace(rule.defaults, **changes), was_hot)


def value(verdict: Verdict, name: str) -> float:
    found = next(figure.value for figure in verdict.figures if figure.name == name)
    assert found is not None
    return found


# --- threshold ---------------------------------------------------------------------------------------------------


def test_threshold_wants_level_and_k_of_n() -> None:
    above = [0.5, 0.9, 0.9, 0.5, 0.9]  # 3 of 5 above 0.8
    assert ask(threshold.RULE, reading(CPU, above, mean=0.81)).outcome == Outcome.HOT
    assert ask(threshold.RULE, reading(CPU, above, mean=0.8)).outcome == Outcome.NOT_HOT  # not above
    assert ask(threshold.RULE, reading(CPU, [0.9, 0.5, 0.9, 0.5, 0.5], mean=0.81)).outcome == Outcome.NOT_HOT  # 2 of 5
    assert ask(threshold.RULE, reading(CPU, [0.9, 0.5], mean=0.81), k=0).outcome == Outcome.HOT  # the level alone


def test_threshold_has_hysteresis_that_comes_in_as_a_value() -> None:
    between = reading(CPU, [0.9, *[0.75] * 4])
    assert ask(threshold.RULE, between).outcome == Outcome.NOT_HOT
    assert ask(threshold.RULE, between, True).outcome == Outcome.HOT
    assert ask(threshold.RULE, constant(CPU, 0.7), True).outcome == Outcome.NOT_HOT  # fell to low


@pytest.mark.parametrize("level", [0.81, 0.83, 0.85, 0.89])
def test_alarm_ends_within_window_once_load_is_below_high(level: float) -> None:
    defaults, values, hot, mean = threshold.RULE.defaults, [0.6] * 30, False, 0.6
    said = []
    for value in [*[0.97] * 8, *[level] * 40]:
        values = [*values[1:], value]
        mean += (1.0 - math.exp(-1 / 5.0)) * (value - mean)
        kept = inputs(
            counted=8, counted_valid=8, above=sum(each > 0.9 for each in values[-8:]), threshold=0.9, plateau=4,
            lowest=min(values[-4:]), highest=max(values[-4:]), q3=quartiles(values)[1],
        )  # fmt: skip
        subject = one(reading(CPU, mean=mean, last=value, inputs=kept))
        hot = threshold.judge(subject, defaults, hot).outcome == Outcome.HOT
        said.append(hot)
    assert said[7]
    assert not any(said[8 + 30 :])


def test_an_alarm_lasts_while_a_quarter_of_the_window_was_above_high() -> None:
    lately = [*[0.9] * 10, *[0.75] * 20]
    assert ask(threshold.RULE, reading(CPU, lately), True).outcome == Outcome.HOT
    verdict = ask(threshold.RULE, reading(CPU, [*[0.75] * 5, *lately[5:]]), True)
    assert verdict.outcome == Outcome.NOT_HOT
    assert "but no recent value is above 0.8" in verdict.reason
    assert ask(threshold.RULE, reading(CPU, lately[20:]), True, k=0).outcome == Outcome.HOT  # the level alone


def test_threshold_uses_matching_count_of_the_filter() -> None:
    counted = reading(CPU, mean=0.9, last=0.9, inputs=inputs(above=3))
    assert ask(threshold.RULE, counted).outcome == Outcome.HOT
    assert ask(threshold.RULE, counted, k=4).outcome == Outcome.NOT_HOT
    for changes in ({"high": 0.85}, {"n": 6}):
        other = ask(threshold.RULE, counted, **changes)
        assert other.outcome == Outcome.ABSTAINED
        assert "change [filter.inputs] or the rule" in other.reason
    gaps = counted._replace(inputs=inputs(above=3, counted_valid=3))
    assert ask(threshold.RULE, gaps).outcome == Outcome.HOT
    fresh = counted._replace(inputs=inputs(above=3, warming=True))  # 5 of 5, in a window of 30 that is not full
    assert ask(threshold.RULE, fresh).outcome == Outcome.HOT
    young = counted._replace(inputs=inputs(above=3, counted_valid=3, warming=True))
    assert ask(threshold.RULE, young).reason == "WARMING: 3 of 5 valid values of cpu_busy_ratio"


def test_threshold_may_be_entered_below_high() -> None:
    rising = reading(CPU, [0.5, 0.6, 0.9, 0.9, 0.9], mean=0.75)
    assert ask(threshold.RULE, rising).outcome == Outcome.NOT_HOT
    assert ask(threshold.RULE, rising, enter=0.72).outcome == Outcome.HOT  # 3 of 5 are above 0.8
    assert ask(threshold.RULE, rising, enter=0.75).outcome == Outcome.NOT_HOT
    assert ask(threshold.RULE, rising, enter=0.72, high=0.95).outcome == Outcome.NOT_HOT  # 0 of 5
    with pytest.raises(ValueError, match="exceeds enter"):
        threshold.Parameters(enter=0.1)


PLATEAU: dict[str, Any] = {"plateau": 4, "plateau_range": 0.06}


def test_a_plateau_tells_before_k_of_n_and_before_the_average() -> None:
    jump = [0.3, 0.3, 0.91, 0.93, 0.95, 0.92]
    verdict = ask(threshold.RULE, reading(CPU, jump, mean=0.5), k=5, n=6, **PLATEAU)
    assert verdict.outcome == Outcome.HOT
    assert "the last 4 values of cpu_busy_ratio are above 0.8 and at most 0.04 apart" in verdict.reason
    assert (value(verdict, "lowest"), value(verdict, "highest"), value(verdict, "plateau")) == (0.91, 0.95, 4.0)
    assert verdict.excess == pytest.approx(0.91 - 0.8)
    for off in (None, 0):
        assert ask(threshold.RULE, reading(CPU, jump, mean=0.5), k=5, n=6, plateau=off).outcome == Outcome.NOT_HOT
    spike = [0.3, 0.82, 1.0, 1.0, 0.85]  # its ends are covered only in part
    assert ask(threshold.RULE, reading(CPU, spike, mean=0.5), **PLATEAU).outcome == Outcome.NOT_HOT
    low = [0.3, 0.8, 0.81, 0.82, 0.83]  # one is not above 0.8
    assert ask(threshold.RULE, reading(CPU, low, mean=0.5), **PLATEAU).outcome == Outcome.NOT_HOT
    wide = [0.3, 0.875, 0.9375, 0.9375, 0.9375]  # 0.0625 apart
    assert ask(threshold.RULE, reading(CPU, wide, mean=0.5), **PLATEAU).outcome == Outcome.NOT_HOT
    assert ask(threshold.RULE, reading(CPU, wide, mean=0.5), plateau=4, plateau_range=0.0625).outcome == Outcome.NOT_HOT
    assert ask(threshold.RULE, constant(CPU, 1.0), **PLATEAU).outcome == Outcome.HOT  # a host that is full stays at 1.0


def test_a_plateau_holds_an_alarm_that_began_before_the_average_rose() -> None:
    risen = reading(CPU, [0.1, 0.95, 0.95, 0.95, 0.95, 0.95], mean=0.6)
    assert ask(threshold.RULE, risen, True, **PLATEAU).outcome == Outcome.HOT
    assert ask(threshold.RULE, risen, True).outcome == Outcome.NOT_HOT
    over = reading(CPU, [0.95, 0.95, 0.95, 0.95, 0.5], mean=0.69)
    assert ask(threshold.RULE, over, True, **PLATEAU).outcome == Outcome.NOT_HOT


def test_a_plateau_is_taken_from_the_filter_where_it_keeps_the_same() -> None:
    kept = reading(CPU, mean=0.5, last=0.9, inputs=inputs(plateau=4, lowest=0.9, highest=0.95))
    assert ask(threshold.RULE, kept, **PLATEAU).outcome == Outcome.HOT
    assert ask(threshold.RULE, kept, plateau=4, plateau_range=0.01).outcome == Outcome.NOT_HOT
    other = ask(threshold.RULE, kept, plateau=5, plateau_range=0.06)
    assert other.outcome == Outcome.ABSTAINED
    assert other.reason == (
        "MISSING: the filter keeps lowest and highest of the last 4 values of cpu_busy_ratio, the rule needs "
        "5: change [filter.inputs] or the rule"
    )
    without = kept._replace(inputs=inputs(above=5, plateau=0))
    assert ask(threshold.RULE, without, **PLATEAU).outcome == Outcome.ABSTAINED
    assert ask(threshold.RULE, without).outcome == Outcome.NOT_HOT  # nobody asks for it
    assert ask(threshold.RULE, without._replace(mean=0.9), **PLATEAU).outcome == Outcome.HOT  # k of n tells without it
    young = kept._replace(inputs=inputs(valid=3, plateau=4))
    assert ask(threshold.RULE, young, **PLATEAU).reason == "WARMING: 3 of 4 valid values of cpu_busy_ratio"


@given(
    histories, loads, st.booleans(), st.integers(0, 5), st.none() | st.floats(0.7, 1.0), st.none() | st.integers(0, 8),
    st.floats(0.0, 0.3),
)  # fmt: skip
def test_threshold_is_its_formula(
    values: list[float],
    mean: float,
    was_hot: bool,
    k: int,
    enter: float | None,
    m: int | None,
    apart: float,
) -> None:
    changes = {"k": k, "enter": enter, "plateau": m, "plateau_range": apart}
    verdict = ask(threshold.RULE, reading(CPU, values, mean=mean), was_hot, **changes)
    if was_hot:
        window = sorted(values[-30:])
        upper = 0.25 * window[21] + 0.75 * window[22] if len(window) == 30 else 0.0  # rank 0.75 * 29 = 21.75
        recent = any(each > 0.8 for each in values[-5:]) or upper > 0.8
        unknown = len(values) < 5
        expected = Outcome.HOT if mean > 0.7 and (recent or unknown or not k) else Outcome.NOT_HOT
    elif mean <= (0.8 if enter is None else enter):
        expected = Outcome.NOT_HOT
    elif k and len(values) < 5:
        expected = Outcome.ABSTAINED
    else:
        count = 0
        for each in values[-5:]:
            count += 1 if each > 0.8 else 0
        expected = Outcome.HOT if count >= k else Outcome.NOT_HOT
    if m and len(values) < m:
        expected = Outcome.HOT if expected == Outcome.HOT else Outcome.ABSTAINED
    elif m and all(each > 0.8 for each in values[-m:]):
        expected = Outcome.HOT if max(values[-m:]) - min(values[-m:]) < apart else expected
    assert verdict.outcome == expected


@given(histories, loads, st.booleans(), st.integers(1, 8), st.floats(0.0, 0.3))
def test_threshold_says_the_same_of_what_the_filter_keeps(
    values: list[float], mean: float, was_hot: bool, m: int, apart: float
) -> None:
    last, lately = values[-5:], values[-m:]
    known = len(lately) == m
    kept = inputs(
        valid=min(30, len(values)), above=sum(each > 0.8 for each in last), counted_valid=len(last), plateau=m,
        lowest=min(lately) if known else None, highest=max(lately) if known else None, warming=len(values) < 30,
        q3=quartiles(values[-30:])[1],
    )  # fmt: skip
    there, here = reading(CPU, values, mean=mean), reading(CPU, mean=mean, last=values[-1], inputs=kept)
    found = [ask(threshold.RULE, each, was_hot, plateau=m, plateau_range=apart) for each in (there, here)]
    assert found[0] == found[1]


# --- Sandpiper ---------------------------------------------------------------------------------------------------


def test_sandpiper_by_hand() -> None:
    # mu = 0.7, offsets -0.2 0 0.2: phi = (-0.2*0 + 0*0.2) / (0.04 + 0) = 0, so 0.9 is predicted
    assert sandpiper.predict([0.5, 0.7, 0.9], "onward") == pytest.approx((0.7, 0.0, 0.9))
    assert sandpiper.predict([0.5, 0.7, 0.9], "reverting") == pytest.approx((0.7, 0.0, 0.7))
    # mu = 0.5, offsets -0.3 -0.1 0.1 0.3: phi = (0.03 - 0.01 + 0.03) / (0.09 + 0.01 + 0.01) = 5/11
    mu, phi, predicted = sandpiper.predict([0.2, 0.4, 0.6, 0.8], "onward")
    assert (mu, phi, predicted) == pytest.approx((0.5, 5 / 11, 0.8 + 5 / 11 * 0.3))
    assert sandpiper.predict([0.2, 0.4, 0.6, 0.8], "reverting")[2] == pytest.approx(0.5 + 5 / 11 * 0.3)


def test_sandpiper_wants_k_of_n_and_the_prediction() -> None:
    only_cpu = {"metrics": (CPU,), "window": 5}
    assert ask(sandpiper.RULE, reading(CPU, [0.1, 0.2, 0.8, 0.8, 0.8]), **only_cpu).outcome == Outcome.HOT
    assert ask(sandpiper.RULE, reading(CPU, [0.1, 0.2, 0.7, 0.8, 0.8]), **only_cpu).outcome == Outcome.NOT_HOT  # 2 of 5
    # 3 of 5 are above, but the load has left
    assert ask(sandpiper.RULE, reading(CPU, [0.8, 0.8, 0.8, 0.3, 0.1]), **only_cpu).outcome == Outcome.NOT_HOT


def test_sandpiper_tests_all_metrics_and_abstains_if_uncertain() -> None:
    calm, hot = constant(CPU, 0.2), constant(CPU, 0.9)
    rest = {NETWORK: constant(NETWORK, 0.1), MEMORY: constant(MEMORY, 0.1)}
    defaults = sandpiper.RULE.defaults
    judge = sandpiper.RULE.judge
    assert judge(Host("h", "h", readings={CPU: hot, **rest}), defaults).outcome == Outcome.HOT
    assert judge(Host("h", "h", readings={CPU: calm, **rest}), defaults).outcome == Outcome.NOT_HOT
    del rest[NETWORK]
    assert judge(Host("h", "h", readings={CPU: hot, **rest}), defaults).outcome == Outcome.HOT
    missing = judge(Host("h", "h", readings={CPU: calm, **rest}), defaults)
    assert (missing.outcome, missing.reason) == (Outcome.ABSTAINED, "MISSING: h has no network_used_ratio")


@given(st.lists(loads, min_size=5, max_size=60), st.sampled_from(["onward", "reverting"]))
def test_sandpiper_is_its_formula(values: list[float], predictor: str) -> None:
    window = min(len(values), 30)
    verdict = ask(sandpiper.RULE, reading(CPU, values), metrics=(CPU,), window=window, predictor=predictor)
    seen = values[-window:]
    mu = sum(seen) / len(seen)
    upper = lower = 0.0
    for i in range(1, len(seen)):
        upper += (seen[i] - mu) * (seen[i - 1] - mu)
        lower += (seen[i - 1] - mu) ** 2
    phi = upper / lower if lower > 1e-12 else 0.0
    expected = (seen[-1] if predictor == "onward" else mu) + phi * (seen[-1] - mu)
    assert value(verdict, "predicted") == pytest.approx(expected, abs=1e-4)
    count = len([each for each in values[-5:] if each > 0.75])
    if not math.isclose(expected, 0.75, abs_tol=1e-4):
        assert verdict.outcome == (Outcome.HOT if count >= 3 and expected > 0.75 else Outcome.NOT_HOT)


# --- Neat --------------------------------------------------------------------------------------------------------


def test_mad_and_iqr_by_hand() -> None:
    values = [0.1, 0.2, 0.3, 0.4, 0.9]
    assert median(values) == 0.3
    assert median_absolute_deviation(values) == pytest.approx(0.1)  # 0.2 0.1 0 0.1 0.6
    assert quartiles(values) == pytest.approx((0.2, 0.4))
    # u = 0.9 against 1 - 2.5 * 0.1 = 0.75, and against 1 - 1.5 * 0.2 = 0.7
    assert value(ask(neat_mad.RULE, reading(CPU, values), window=5), "limit") == pytest.approx(0.75)
    assert ask(neat_mad.RULE, reading(CPU, values), window=5).outcome == Outcome.HOT
    assert ask(neat_mad.RULE, reading(CPU, values), window=5, safety=0.9).outcome == Outcome.NOT_HOT  # 0.91
    assert value(ask(neat_iqr.RULE, reading(CPU, values), window=5), "limit") == pytest.approx(0.7)
    assert ask(neat_iqr.RULE, reading(CPU, values, mean=0.69), window=5).outcome == Outcome.NOT_HOT
    assert ask(neat_iqr.RULE, reading(CPU, values, mean=0.71), window=5).outcome == Outcome.HOT


def test_equal_to_the_limit_is_overloaded() -> None:
    assert ask(neat_mad.RULE, constant(CPU, 1.0)).outcome == Outcome.HOT  # u >= 1 - s * 0


@given(st.lists(loads, min_size=1, max_size=60), loads)
def test_mad_and_iqr_are_their_formulas(values: list[float], mean: float) -> None:
    window = len(values)
    found = reading(CPU, values, mean=mean)
    middle = statistics.median(values)
    mad = statistics.median([abs(each - middle) for each in values])
    first, third = np.percentile(values, [25, 75])
    for rule, limit in ((neat_mad.RULE, 1 - 2.5 * mad), (neat_iqr.RULE, 1 - 1.5 * (third - first))):
        verdict = ask(rule, found, window=window)
        assert value(verdict, "limit") == pytest.approx(limit, abs=1e-9)
        if not math.isclose(mean, limit, abs_tol=1e-9):
            assert verdict.outcome == (Outcome.HOT if mean >= limit else Outcome.NOT_HOT)
        from_filter = reading(
            CPU, mean=mean, last=mean,
            inputs=inputs(window=window, valid=window, mad=mad, median=middle, q1=first, q3=third),
        )  # fmt: skip
        assert ask(rule, from_filter, window=window).outcome == verdict.outcome


def test_missing_spread_names_the_configuration_key() -> None:
    found = reading(CPU, [0.5] * 5)._replace(inputs=inputs(mad=0.1)._replace(ordered=False, mad=None))
    for rule in (neat_mad.RULE, neat_iqr.RULE):
        verdict = ask(rule, found)
        assert verdict.outcome == Outcome.ABSTAINED
        assert "[filter.inputs] order_statistics" in verdict.reason


def test_spread_of_the_filter_needs_a_full_and_mostly_valid_window() -> None:
    found = reading(CPU, mean=0.9, last=0.9, inputs=inputs(valid=14, mad=0.1))
    assert ask(neat_mad.RULE, found).reason == "WARMING: 14 of 30 valid values of cpu_busy_ratio"
    assert ask(neat_mad.RULE, found._replace(inputs=inputs(valid=15, mad=0.1))).outcome == Outcome.HOT
    assert ask(neat_mad.RULE, found._replace(inputs=inputs(mad=0.1, warming=True))).outcome == Outcome.ABSTAINED
    assert ask(neat_mad.RULE, found._replace(inputs=inputs(mad=None))).outcome == Outcome.ABSTAINED
    assert ask(neat_mad.RULE, found._replace(inputs=inputs(window=20, valid=20, mad=0.1))).outcome == Outcome.ABSTAINED


def test_regression_goes_on_in_a_straight_line() -> None:
    line = [0.3 + 0.01 * x for x in range(1, 31)]
    assert neat_regression.fit(line) == pytest.approx((0.3, 0.01))
    verdict = ask(neat_regression.RULE, reading(CPU, line), migration_seconds=20.0)
    assert value(verdict, "predicted") == pytest.approx(0.3 + 0.01 * 50)  # 0.8 at the end of the migration
    assert verdict.outcome == Outcome.NOT_HOT  # 1.2 * 0.8 = 0.96
    assert ask(neat_regression.RULE, reading(CPU, line), migration_seconds=25.0).outcome == Outcome.HOT  # 1.02
    # half as many steps of twice the interval
    verdict = ask(neat_regression.RULE, reading(CPU, line, interval=2.0), migration_seconds=20.0)
    assert value(verdict, "predicted") == pytest.approx(0.7)


def test_regression_weights_by_hand() -> None:
    assert neat_regression.tricube(3) == pytest.approx((0.0, (1 - 0.125) ** 3, 1.0))
    # the oldest has no weight: the line goes through the two newest
    assert neat_regression.fit([0.9, 0.4, 0.5]) == pytest.approx((0.2, 0.1))


@given(st.lists(loads, min_size=3, max_size=60), st.floats(0, 60))
def test_regression_is_its_formula(values: list[float], seconds: float) -> None:
    n = len(values)
    x = np.arange(1, n + 1, dtype=float)
    weights = (1 - ((n - x) / (n - 1)) ** 3) ** 3
    root = np.sqrt(weights)
    design = np.stack([root, root * x], axis=1)
    a, b = np.linalg.lstsq(design, root * np.array(values), rcond=None)[0]
    expected = float(a + b * (n + seconds))
    verdict = ask(neat_regression.RULE, reading(CPU, values), window=n, migration_seconds=seconds)
    assert value(verdict, "predicted") == pytest.approx(expected, abs=1e-6)
    if not math.isclose(1.2 * expected, 1.0, abs_tol=1e-6):
        assert verdict.outcome == (Outcome.HOT if 1.2 * expected >= 1.0 else Outcome.NOT_HOT)


# --- CUSUM -------------------------------------------------------------------------------------------------------


def test_cusum_by_hand() -> None:
    # 0.5 - 0.2 - 0.05 = 0.25; 0.25 + 0.6 - 0.3 - 0.05 = 0.5; 0.5 + 0.1 - 0.4 - 0.05 = 0.15
    assert cusum.cusum([0.2, 0.5, 0.6, 0.1], [0.2, 0.3, 0.4, 0.3], 0.05) == pytest.approx(0.15)
    assert cusum.cusum([0.2, 0.5, 0.6], [0.2, 0.3, 0.4], 0.05) == pytest.approx(0.5)


def test_cusum_takes_that_of_the_filter() -> None:
    found = reading(CPU, mean=0.7, last=0.9, inputs=inputs(cusum=0.51))
    assert ask(cusum.RULE, found).outcome == Outcome.HOT
    assert ask(cusum.RULE, found, limit=0.51).outcome == Outcome.NOT_HOT  # above, not at
    assert ask(cusum.RULE, found, level=0.7).outcome == Outcome.NOT_HOT  # an alarm at a level that is no overload
    assert ask(cusum.RULE, found._replace(inputs=inputs(cusum=0.51, warming=True))).outcome == Outcome.ABSTAINED


@pytest.mark.parametrize("rule", [sandpiper.RULE, neat_regression.RULE])
def test_a_window_with_a_long_gap_is_not_full(rule: Rule) -> None:
    metrics: dict[str, Any] = {"metrics": (CPU,)} if rule is sandpiper.RULE else {}
    values = [0.2] * 25 + [0.9] * 5

    def at(*steps: int) -> Verdict:
        return ask(rule, reading(CPU, values, recent_steps=steps), window=30, **metrics)

    assert at(*range(30)).outcome == Outcome.HOT
    assert at(*range(25), *range(54, 59)).outcome == Outcome.HOT  # 30 of 59 ticks
    late = at(*range(25), *range(100, 105))  # nothing of 75 ticks: what lies before says nothing of now
    assert (late.outcome, late.reason) == (Outcome.ABSTAINED, f"WARMING: 5 of 30 valid values of {CPU}")


def test_single_spikes_between_samples_that_fail_are_no_plateau() -> None:
    kept = inputs(counted=6, plateau=4, lowest=1.0, highest=1.0, threshold=threshold.RULE.defaults.high)

    def at(counted_valid: int, was_hot: bool = False) -> str:
        found = reading(CPU, mean=0.5, last=1.0, inputs=kept._replace(counted_valid=counted_valid))
        return threshold.RULE.judge(one(found), threshold.RULE.defaults, was_hot).outcome

    assert (at(4), at(6)) == (Outcome.HOT, Outcome.HOT)
    assert (at(3), at(1), at(1, was_hot=True)) == (Outcome.NOT_HOT, Outcome.NOT_HOT, Outcome.NOT_HOT)


def test_cusum_without_a_level_is_the_formula_alone() -> None:
    found = reading(CPU, [0.0, 1.0, 0.0], recent_means=(0.0, 0.0, 0.0))  # d = 1, and an average of exactly 0
    assert ask(cusum.RULE, found, window=3, drift=0.0).outcome == Outcome.HOT
    assert ask(cusum.RULE, found, window=3, drift=0.0, level=0.1).outcome == Outcome.NOT_HOT


@given(st.lists(st.tuples(loads, loads), min_size=2, max_size=60), st.floats(0, 0.5))
def test_cusum_is_its_formula(pairs: list[tuple[float, float]], drift: float) -> None:
    values, means = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    d = 0.0
    for i in range(1, len(values)):
        d = max(0.0, d + values[i] - means[i - 1] - drift)
    found = reading(CPU, values, recent_means=tuple(means))
    verdict = ask(cusum.RULE, found, window=len(values), drift=drift)
    assert value(verdict, "d") == pytest.approx(d, abs=1e-9)
    if not math.isclose(d, 0.5, abs_tol=1e-9):
        assert verdict.outcome == (Outcome.HOT if d > 0.5 else Outcome.NOT_HOT)


# --- all of them -------------------------------------------------------------------------------------------------

RULES = pytest.mark.parametrize("rule", REGISTRY.values(), ids=list(REGISTRY))


@RULES
def test_every_rule_abstains_where_nothing_is_known(rule: Rule) -> None:
    full = host("h", cpu=0.99).readings
    known = Host("h", "h", readings=full)
    assert rule.judge(known, rule.defaults).outcome in (Outcome.HOT, Outcome.NOT_HOT)
    for broken, words in (
        (known._replace(state=DOWN, age_seconds=60.0), "h is down, 60 s old"),
        (known._replace(state=LATE, reason="slow"), "h is late, of unknown age: slow"),
        (known._replace(state=LATE), "h is late, of unknown age"),
        (known._replace(readings={}), "MISSING: h has no cpu_busy_ratio"),
        (_with_cpu(known, stale_seconds=None, validity="FIRST", mean=None), "FIRST: cpu_busy_ratio never had"),
        (_with_cpu(known, stale_seconds=4.0, validity="TIMEOUT"), "TIMEOUT: cpu_busy_ratio has had no valid value"),
        (_with_cpu(known, recent=(0.9,), recent_means=(0.9,)), "WARMING: 1 of "),
    ):
        verdict = rule.judge(broken, rule.defaults)
        assert verdict.outcome == Outcome.ABSTAINED, verdict
        assert verdict.reason.startswith(words)


def _with_cpu(known: Host, **changes: Any) -> Host:
    rest = {name: constant(name, 0.0) for name in (MEMORY, NETWORK)}
    return known._replace(readings={**rest, CPU: known.readings[CPU]._replace(**changes)})


@RULES
def test_every_rule_judges_vms_as_well(rule: Rule) -> None:
    readings = host("h", cpu=0.99).readings
    vm = Vm("uuid", "guest", "h", readings=readings)
    assert rule.judge(vm, rule.defaults) == rule.judge(Host("h", "guest", readings=readings), rule.defaults)


@RULES
def test_a_raw_value_that_failed_a_check_is_not_used(rule: Rule) -> None:
    known = Host("h", "h", readings=host("h", cpu=0.2).readings)
    broken = _with_cpu(known, last=5.0, validity="RANGE", stale_seconds=1.0)
    parameters = msgspec.structs.replace(rule.defaults, smoothed=False)
    verdict = rule.judge(broken, parameters)
    assert verdict.outcome == Outcome.ABSTAINED
    assert verdict.reason.startswith("RANGE")
    outlier = _with_cpu(known, validity="VALID|OUTLIER")
    assert rule.judge(outlier, parameters).outcome == Outcome.NOT_HOT


@RULES
@given(
    values=st.lists(loads, max_size=60),
    mean=st.none() | loads,
    last=st.none() | loads,
    validity=st.sampled_from(["VALID", "MISSING", "RANGE", "VALID|OUTLIER"]),
    stale=st.none() | st.floats(0, 10),
    state=st.sampled_from(["current", "late", "down"]),
    was_hot=st.booleans(),
)
def test_no_rule_ever_fails_or_forgets_its_reason(
    rule: Rule, values, mean, last, validity, stale, state, was_hot
) -> None:  # type: ignore[no-untyped-def]
    found = Reading(CPU, mean, None, None, last, validity, 0.5, stale, None, values, values)
    verdict = rule.judge(one(found, state=state), rule.defaults, was_hot)
    further = (Outcome.SUSPECT, Outcome.SATURATED) if rule.name == "contention" else ()
    assert verdict.outcome in (Outcome.HOT, Outcome.NOT_HOT, Outcome.ABSTAINED, *further)
    assert verdict.reason
    assert (verdict.excess is None) == (verdict.outcome == Outcome.ABSTAINED)
    assert all(figure.value is None or math.isfinite(figure.value) for figure in verdict.figures)


@RULES
def test_rules_are_registered_with_source_and_valid_defaults(rule: Rule) -> None:
    assert REGISTRY[rule.name] is rule
    assert rule.title
    assert rule.source
    assert msgspec.convert(msgspec.to_builtins(rule.defaults), type(rule.defaults)) == rule.defaults


def test_parameters_that_contradict_each_other_are_refused() -> None:
    for make in (
        lambda: threshold.Parameters(low=0.9, high=0.8),
        lambda: threshold.Parameters(k=6, n=5),
        lambda: sandpiper.Parameters(k=6, n=5),
        lambda: sandpiper.Parameters(n=40, window=30),
    ):
        with pytest.raises(ValueError, match="exceeds"):
            make()


# --- longer ticks ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("interval", "stale", "known"),
    [(1.0, 3.0, True), (1.0, 3.1, False), (0.1, 3.0, True), (0.1, 3.1, False),
     (2.0, 6.0, True), (2.0, 6.1, False), (5.0, 10.0, True), (5.0, 15.1, False)],
)  # fmt: skip
def test_what_is_stale_follows_the_interval(interval: float, stale: float, known: bool) -> None:
    found = constant(CPU, 0.5, interval=interval, stale_seconds=stale, validity="TIMEOUT")
    assert (ask(threshold.RULE, found).outcome == Outcome.NOT_HOT) is known


@pytest.mark.parametrize(("above", "hot"), [(0, False), (2, False), (3, True), (4, True)])
def test_k_of_n_means_the_same_share_of_fewer_samples(above: int, hot: bool) -> None:
    """At 2 s the filter counts 4 samples in 8 s: 6 of 8 are 3 of 4."""
    kept = inputs(
        window=15, valid=15, counted=4, counted_valid=4, above=above, threshold=0.9, plateau=2, lowest=0.0, highest=1.0,
        window_seconds=30.0, counted_seconds=8.0, plateau_seconds=4.0,
    )  # fmt: skip
    found = reading(CPU, mean=0.85, last=0.95, inputs=kept, interval=2.0)
    assert (threshold.judge(one(found), threshold.RULE.defaults).outcome == Outcome.HOT) is hot


@pytest.mark.parametrize(("mean", "was_hot", "hot"), [(0.81, False, True), (0.8, False, False), (0.8, True, False)])
def test_a_plateau_of_few_samples_asks_the_average(mean: float, was_hot: bool, hot: bool) -> None:
    """At 2 s two samples are the four seconds of a plateau, and a spike of three seconds may fill both."""
    kept = inputs(
        window=15, valid=15, counted=4, counted_valid=4, above=2, threshold=0.9, plateau=2, lowest=0.92, highest=0.95,
        window_seconds=30.0, counted_seconds=8.0, plateau_seconds=4.0,
    )  # fmt: skip
    found = reading(CPU, mean=mean, last=0.95, inputs=kept, interval=2.0)
    verdict = threshold.judge(one(found), threshold.RULE.defaults, was_hot)
    assert (verdict.outcome == Outcome.HOT) is hot
    if hot:
        assert verdict.reason == "the last 2 values of cpu_busy_ratio are above 0.9 and at most 0.03 apart"
        assert value(verdict, "plateau") == 2.0
