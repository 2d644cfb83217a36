"""Contention rule: what guests lose, in parts for CPU, memory and network.

Waiting is harmful, high use alone is not. The CPU part is hot if the load is above ``low`` and the waiting share of
wanted CPU time (``cpu_waiting_ratio``: delay of the host's VMs without that from their own limits, else pressure and
run queue) is above ``waiting`` for as long as the threshold rule requires of a level, or if the level is hot by that
rule and average waiting exceeds ``waiting``. A level that is hot with waiting within its limit is *saturated*: it gives
VMs later, if that pays. If waiting is unknown, the level alone decides, and the reason states this. Time taken by a
hypervisor below the host (``steal``) counts as waiting. Memory and network have limits of their own.

A missing signal makes its part abstain. The verdict abstains only if the CPU part does and no other part is hot.

Ready time as the measure of contention is VMware's (DRS score, CPU ready); k of n and the two thresholds are those of
the threshold rule.
"""

from __future__ import annotations

from functools import lru_cache

from acquisition.config.inputs import DEFAULT_THRESHOLDS
from acquisition.model.derived import WAITING
from filters.decisions.overload_detection import contention_parts, threshold
from filters.decisions.overload_detection.contention_parts import Limits
from filters.decisions.overload_detection.rule import NotNegative, Rule, Share
from filters.decisions.picture import CPU, MEMORY, NETWORK, Host, Vm
from filters.decisions.verdict import ABSTAINED, HOT, NOT_HOT, SATURATED, SUSPECT, Part, Verdict


class Parameters(threshold.Parameters, frozen=True):
    """Those of the threshold rule for the level of the CPU, and the limits of the other signals: ``waiting``, ``steal``
    and ``pressure`` (of memory) are shares of time, ``memory`` and ``network`` of the capacity, ``swap`` bytes per
    second in both directions. ``waiting`` must be the threshold of [filter.inputs]."""

    waiting: Share = DEFAULT_THRESHOLDS[f"host.{WAITING}"]
    steal: Share = 0.1
    memory: Share = 0.95
    pressure: Share = 0.1
    swap: NotNegative = 1e7
    network: Share = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.metric != CPU:
            raise ValueError(f"metric is always {CPU}")

    def cool_of(self, metric: str) -> float | None:
        """The cool level of each part."""
        limits = _limits(self)
        return {CPU: self.low, MEMORY: limits.memory.high, NETWORK: limits.network.low}.get(metric)


_WORST = (HOT, SUSPECT, SATURATED)


@lru_cache(64)
def _limits(parameters: Parameters) -> Limits:
    """The limits of each signal as parameters of the threshold rule."""

    def level(metric: str, high: float, low: float, k: int, plateau: int | None) -> threshold.Parameters:
        return threshold.Parameters(
            smoothed=parameters.smoothed, stale_seconds=parameters.stale_seconds, metric=metric, high=high, low=low,
            enter=low if k and metric == NETWORK else high, k=k, n=parameters.n, plateau=plateau,
            plateau_range=parameters.plateau_range if metric == NETWORK else 1.0,
        )  # fmt: skip

    def alone(metric: str, limit: float) -> threshold.Parameters:
        return level(metric, limit, limit / 2.0, 0, None)

    network_low = max(0.0, parameters.network - (parameters.high - parameters.low))
    return Limits(
        level(WAITING, parameters.waiting, parameters.waiting / 2.0, parameters.k, parameters.plateau),
        alone("cpu_steal_ratio", parameters.steal),
        alone("memory_used_ratio", parameters.memory),
        alone("pressure_memory_some_ratio", parameters.pressure),
        parameters.swap,
        level(NETWORK, parameters.network, network_low, parameters.k, parameters.plateau),
    )


def judge(subject: Host | Vm, parameters: Parameters, was_hot: bool = False) -> Verdict:
    """The worst of the parts; the verdict lists the others with their reasons."""
    limits = _limits(parameters)
    cpu = contention_parts.cpu(subject, parameters, limits, was_hot)
    found = (cpu, contention_parts.memory(subject, limits), contention_parts.network(subject, limits, was_hot))
    parts = tuple([Part(each.name, each.outcome, each.reason) for each in found])
    outcomes = [each.outcome for each in found]
    outcome = next((each for each in _WORST if each in outcomes), NOT_HOT)
    if cpu.outcome is ABSTAINED and outcome is not HOT:
        return Verdict(ABSTAINED, cpu.words, cpu.figures, None, parts)
    deciding = [cpu] if outcome is NOT_HOT else [each for each in found if each.outcome is outcome]
    figures = [figure for each in deciding for figure in each.figures]
    others = [figure for each in found if each not in deciding for figure in each.figures]
    words = "; ".join([each.words for each in deciding])
    lasting = max([each.lasting for each in deciding if each.lasting], default=None)
    return Verdict(outcome, words, (*figures, *others), deciding[0].excess, parts, lasting, len(figures))


RULE = Rule(
    "contention",
    "guests wait, or memory or network is exhausted",
    "u of the CPU > `low` and waiting > `waiting` for as long as `threshold` wants of a level, or the level hot by "
    "`threshold` and waiting above its limit on the average or unknown; steal > `steal`; memory used > `memory`, its "
    "pressure > `pressure` or swap traffic > `swap`; network by `threshold` at `network`. Hot stays hot while "
    "waiting > half of `waiting`, was above it lately, and u > `low` - 0.05",
    "CPU ready as the measure of contention: VMware DRS; level: `threshold`",
    Parameters(),
    judge,
)
