"""Who is certainly hot by arrays is who the rule calls hot, by the same excess; all others the rule judges."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import numpy as np
import pytest

from acquisition.model.inputs import DecisionInputs
from acquisition.snapshot.column import Column
from acquisition.wire.inputs import KEPT
from filters.decisions.overload_detection import REGISTRY
from filters.decisions.overload_detection.threshold import Parameters
from filters.decisions.picture import CPU, Host, Reading
from filters.decisions.verdict import HOT, Verdict

RULE = REGISTRY["threshold"]
CHANCES = 400
CASES = [
    Parameters(),
    Parameters(smoothed=False),
    Parameters(k=0),
    Parameters(enter=None, k=3),
    Parameters(plateau=None),
    Parameters(plateau=0, k=0, smoothed=False),
    Parameters(high=0.85),
    Parameters(n=7, k=5),
    Parameters(plateau=3),
]


class Case(NamedTuple):
    """What the filter may have kept of a host."""

    mean: float
    last: float
    stale: float
    valid: bool
    inputs: DecisionInputs


def any_case(chance: random.Random) -> Case:
    def figure() -> float:
        return float(np.float32(chance.choice([0.5, 0.8, 0.81, 0.9, 0.91, 0.95, 0.97, 1.0]) + chance.random() / 100))

    lowest = figure()
    kept = chance.random() < 0.9
    highest = float(np.float32(lowest + chance.choice([0.0, 0.01, 0.0699, 0.07, 0.2])))
    counted = chance.choice([8, 8, 8, 8, 7, 3])
    inputs = DecisionInputs(
        30, chance.choice([30, 30, 12]), chance.randint(0, 8), float(np.float32(chance.choice([0.9, 0.9, 0.85]))), 0.0,
        0.0, None, None, None, chance.choice([None, 0.5, 0.95]), 0.0, chance.random() < 0.1,
        chance.choice([8, 8, 8, 7]), counted, chance.choice([4, 4, 4, 3, 0]), lowest if kept else None,
        highest if kept else None, True, 30.0, 8.0, 4.0,
    )  # fmt: skip
    mean = math.nan if chance.random() < 0.05 else figure()
    return Case(mean, figure(), chance.choice([0.0, 0.0, 2.0, 9.0]), chance.random() < 0.9, inputs)


def host_of(case: Case) -> Host:
    reading = Reading(
        CPU, None if math.isnan(case.mean) else case.mean, None, None, case.last if case.valid else None,
        "VALID" if case.valid else "MISSING", 0.1, case.stale, case.inputs,
    )  # fmt: skip
    return Host("00000000000000aa", "a", readings={CPU: reading})


def column_of(cases: list[Case]) -> Column:
    def plane(name: str) -> list[float]:
        names = {"counted_of": "counted", "counted": "counted_valid"}
        found = [getattr(case.inputs, names.get(name, name), None) for case in cases]
        return [math.nan if each is None else float(each) for each in found]

    planes = {name: np.array(plane(name)) for name in ("window", "plateau", "counted_of", "threshold", *KEPT)}
    mean = np.array([case.mean for case in cases])
    return Column(
        np.isfinite(mean), mean, np.array([case.last if case.valid else math.nan for case in cases]),
        np.array([case.stale for case in cases]), planes, np.array([case.inputs.warming for case in cases]),
    )  # fmt: skip


def judged(cases: list[Case], parameters: Parameters, was_hot: list[bool]) -> list[Verdict]:
    return [RULE.judge(host_of(case), parameters, hot) for case, hot in zip(cases, was_hot, strict=True)]


@pytest.mark.parametrize("parameters", CASES, ids=str)
def test_arrays_say_what_the_rule_says(parameters: Parameters) -> None:
    assert RULE.certain is not None
    assert RULE.screen is not None
    chance = random.Random(str(parameters))
    cases = [any_case(chance) for _ in range(CHANCES)]
    was_hot = [chance.random() < 0.5 for _ in cases]
    column, hot = column_of(cases), np.array(was_hot)
    excess, well = RULE.certain(column, parameters, hot), RULE.screen(column, parameters, hot)
    verdicts = judged(cases, parameters, was_hot)
    assert not (np.isfinite(excess) & well).any()
    for found, verdict in zip(excess.tolist(), verdicts, strict=True):
        if math.isfinite(found):
            assert (verdict.outcome, verdict.excess) == (HOT, found)


def test_of_full_windows_nearly_all_is_certain() -> None:
    assert RULE.certain is not None
    chance, parameters = random.Random(1), Parameters()
    cases = [any_case(chance) for _ in range(20 * CHANCES)]
    full = [
        case for case in cases
        if (case.inputs.counted, case.inputs.counted_valid, case.inputs.plateau) == (8, 8, 4)
        and case.inputs.threshold > 0.89 and case.inputs.lowest is not None and case.stale < 3.0
        and not math.isnan(case.mean)
    ]  # fmt: skip
    for was_hot in (False, True):
        hot = [was_hot] * len(full)
        excess = RULE.certain(column_of(full), parameters, np.array(hot))
        for case, found, verdict in zip(full, excess.tolist(), judged(full, parameters, hot), strict=True):
            if verdict.outcome is HOT and (case.inputs.above or not was_hot):
                assert found == verdict.excess
