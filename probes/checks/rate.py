"""More than can be, given another figure of the same row: RATE.

- A VM cannot run its guest for longer than it has vCPUs.
- A host cannot receive or send more than its links carry.

``tolerance`` is the part by which a rate may exceed the possible. More CPU than the machine
has cores is physically impossible whatever else the row says: that is RANGE.
"""

from __future__ import annotations

from acquisition.model.check_kind import CheckKind, Parameter
from acquisition.model.codes import RATE, VALID
from acquisition.model.metric import ResourceSet
from probes.checks.check import Check, CheckSettings, column_of, nothing, setting
from probes.reading import Reading

#: (what happens, what bounds it)
_PAIRS = (
    ("cpu_guest_ratio", "vcpu_count"),
    ("network_receive_bytes_per_second", "link_speed_bytes_per_second"),
    ("network_transmit_bytes_per_second", "link_speed_bytes_per_second"),
)

_TOLERANCE = Parameter("tolerance", 0.05, 0, 1, "part by which a rate may exceed the possible")


def build(resource_set: ResourceSet, settings: CheckSettings) -> Check:
    """The rate check: marks the rate, not what bounds it."""
    factor = 1.0 + setting(settings, _TOLERANCE)
    width = len(resource_set.metrics)
    pairs = [(column_of(resource_set, rate), column_of(resource_set, bound)) for rate, bound in _PAIRS]
    pairs = [(rate, bound) for rate, bound in pairs if rate >= 0 and bound >= 0]
    if not pairs:
        return nothing

    def check(reading: Reading) -> None:
        values, codes = reading.values, reading.codes
        for rate, bound in pairs:
            for row in range(0, len(values), width):
                limit = values[row + bound]
                if (
                    values[row + rate] > limit * factor
                    and limit > 0
                    and codes[row + rate] == VALID
                    and codes[row + bound] == VALID
                ):
                    codes[row + rate] = RATE

    return check


CHECK = CheckKind(
    "More than the machine can do, as guest time above its vCPUs or traffic above the link speed: RATE.",
    build,
    (_TOLERANCE,),
)
