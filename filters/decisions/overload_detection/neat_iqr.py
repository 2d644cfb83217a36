"""OpenStack Neat's IQR rule: overloaded if u >= 1 - s * (Q3 - Q1), s = 1.5.

The source is cited in ``spread``.

The quartiles are interpolated (see ``order_statistics``); Neat's own code takes the nearest ranks.
"""

from __future__ import annotations

from collections.abc import Sequence

from filters.decisions.overload_detection import spread
from filters.decisions.overload_detection.order_statistics import quartiles
from filters.decisions.overload_detection.rule import NotNegative, Rule
from filters.decisions.picture import Host, Reading, Vm
from filters.decisions.verdict import Verdict


class Parameters(spread.Parameters, frozen=True):
    """Parameters with the safety of the paper."""

    safety: NotNegative = 1.5


def judge(subject: Host | Vm, parameters: Parameters, _was_hot: bool = False) -> Verdict:
    """Hot if u >= 1 - s * IQR of the window."""
    return spread.judge(subject, parameters, "IQR", _of_values, _of_inputs)


def _of_values(values: Sequence[float]) -> float:
    first, third = quartiles(values)
    return third - first


def _of_inputs(reading: Reading) -> float | None:
    inputs = reading.inputs
    return None if inputs is None or inputs.q1 is None or inputs.q3 is None else inputs.q3 - inputs.q1


RULE = Rule(
    "neat_iqr",
    "Neat: threshold by the interquartile range",
    "u >= 1 - `safety` (Q3 - Q1) of the window",
    "Beloglazov and Buyya, Concurrency and Computation 24, 2012; openstack-neat iqr_threshold",
    Parameters(),
    judge,
)
