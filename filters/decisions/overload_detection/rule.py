"""Rule protocol of overload detection.

A rule is a pure function ``(host or VM, parameters, was_hot) -> Verdict``. It keeps no state: whether its
subject was hot before comes in as a value (only rules with hysteresis look at it). A new rule is one file in
this directory with its Parameters, its function and its RULE, one line in its registry, and one
test against a scalar transcription of its formula. Configuration, help, HTTP and docs/moves.md name what is registered.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, Protocol

from msgspec import Meta, Struct

from filters.decisions.picture import CPU, Host, Vm
from filters.decisions.verdict import Verdict

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Window = Annotated[int, Meta(ge=1, le=120)]  #: as many values as a reading keeps at most


class Parameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the parameters of all rules.

    ``smoothed`` takes the moving average where a formula says u, in place of the raw value.
    ``stale_seconds`` is how long ago the last valid value may lie (three ticks where these are longer than a second and
    that is more); beyond, the rule abstains.
    """

    smoothed: bool = True
    stale_seconds: NotNegative = 3.0

    @property
    def watched(self) -> tuple[str, ...]:
        """The metrics that the rule looks at."""
        return ()

    @property
    def cool(self) -> float | None:
        """The level of what is watched from which down a host is well, to which a hot one is relieved and below which a
        destination stays; None where the rule knows no such number, so that its verdict alone counts."""
        return None

    def cool_of(self, metric: str) -> float | None:
        """The level of one metric to which a host that is hot by it is relieved; None: the rule knows none."""
        return self.cool if metric in self.watched else None


class OneMetric(Parameters, frozen=True):
    """Parameters of a rule that looks at one metric, a ratio of a capacity."""

    metric: str = CPU

    @property
    def watched(self) -> tuple[str, ...]:
        """That one."""
        return (self.metric,)


class Judge(Protocol):
    """The function of a rule."""

    def __call__(self, subject: Host | Vm, parameters: Any, was_hot: bool = False, /) -> Verdict:
        """The verdict on one host or VM."""
        ...


class Rule(NamedTuple):
    """One registration: ``hot_if`` is the formula in words and names of parameters, ``source`` cites where it comes
    from, ``defaults`` are of its own Parameters type.

    ``history`` says that the rule cannot do without the recent values; others make do with the filter's inputs
    where the window (and the threshold) of ``[filter.inputs]`` are the rule's.
    """

    name: str
    title: str
    hot_if: str
    source: str
    defaults: Parameters
    judge: Judge
    history: bool = False
