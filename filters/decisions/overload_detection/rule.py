"""Rule protocol of overload detection.

A rule is a pure function ``(host or VM, parameters, was_hot) -> Verdict``. It keeps no state: whether its
subject was hot before is an argument (used only by rules with hysteresis). A new rule is one file in
this directory with its Parameters, its function and its RULE, one line in its registry, and one test
against a scalar transcription of its formula. Configuration, help, HTTP and docs/moves.md list registered rules.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, Protocol

from msgspec import Meta, Struct

from filters.decisions.picture import CPU, Host, Vm
from filters.decisions.verdict import Verdict

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Share = Annotated[float, Meta(ge=0, le=1)]
Window = Annotated[int, Meta(ge=1, le=120)]  #: up to the maximum number of values kept by a reading


class Parameters(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the parameters of all rules.

    ``smoothed``: u in formulas is the moving average instead of the raw value.
    ``stale_seconds``: maximum age of the last valid value (three ticks if these are longer than a second and that is
    more); beyond it, the rule abstains.
    """

    smoothed: bool = True
    stale_seconds: NotNegative = 3.0

    @property
    def watched(self) -> tuple[str, ...]:
        """The metrics watched by the rule."""
        return ()

    @property
    def cool(self) -> float | None:
        """The level of the watched metrics at or below which a host is well, to which a hot one is relieved and below
        which a destination stays; None if the rule defines no such level, so that only its verdict counts."""
        return None

    def cool_of(self, metric: str) -> float | None:
        """The level of one metric to which a host that is hot by it is relieved; None: the rule defines none."""
        return self.cool if metric in self.watched else None


class OneMetric(Parameters, frozen=True):
    """Parameters of a rule on one metric, a ratio of a capacity."""

    metric: str = CPU

    @property
    def watched(self) -> tuple[str, ...]:
        """That metric."""
        return (self.metric,)


class Judge(Protocol):
    """The function of a rule."""

    def __call__(self, subject: Host | Vm, parameters: Any, was_hot: bool = False, /) -> Verdict:
        """The verdict on one host or VM."""
        ...


class Rule(NamedTuple):
    """One registration: ``hot_if`` is the formula in words and names of parameters, ``source`` its citation,
    ``defaults`` are of the rule's own Parameters type.

    ``history``: the rule requires the recent values; others can use the filter's inputs if the window (and the
    threshold) of ``[filter.inputs]`` are the rule's.
    """

    name: str
    title: str
    hot_if: str
    source: str
    defaults: Parameters
    judge: Judge
    history: bool = False
