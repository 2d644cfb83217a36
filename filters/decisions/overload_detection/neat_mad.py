"""OpenStack Neat's MAD rule: overloaded if u >= 1 - s * MAD, with s = 2.5.

The source is cited in ``spread``.
"""

from __future__ import annotations

from filters.decisions.overload_detection import spread
from filters.decisions.overload_detection.order_statistics import median_absolute_deviation
from filters.decisions.overload_detection.rule import Rule
from filters.decisions.overload_detection.spread import Parameters
from filters.decisions.picture import Host, Reading, Vm
from filters.decisions.verdict import Verdict


def judge(subject: Host | Vm, parameters: Parameters, _was_hot: bool = False) -> Verdict:
    """Hot if u >= 1 - s * MAD of the window."""
    return spread.judge(subject, parameters, "MAD", median_absolute_deviation, _of_inputs)


def _of_inputs(reading: Reading) -> float | None:
    return reading.inputs.mad if reading.inputs is not None else None


RULE = Rule(
    "neat_mad",
    "Neat: threshold by the median absolute deviation",
    "u >= 1 - `safety` MAD of the window",
    "Beloglazov and Buyya, Concurrency and Computation 24, 2012; openstack-neat mad_threshold",
    Parameters(),
    judge,
)
