"""Parts of the contention rule: CPU, memory and network of one host (pure).

Each is a function of the host's readings to one finding. The threshold rule judges the level of a signal, unless
the signal is far below its limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from acquisition.model.derived import WAITING
from filters.decisions.overload_detection import learned, rule_inputs, threshold
from filters.decisions.picture import MEMORY, VALID, Host, Reading, Vm
from filters.decisions.verdict import (
    ABSTAINED,
    HOT,
    NOT_HOT,
    SATURATED,
    SUSPECT,
    Figure,
    Outcome,
    Verdict,
)

if TYPE_CHECKING:
    from acquisition.model.inputs import DecisionInputs

EASE = 0.05  #: fraction of the cores by which the load of a hot host may be below ``low`` while its guests wait
_SWAP = ("swap_in_bytes_per_second", "swap_out_bytes_per_second")
_NO_PRESSURE = 0.01  #: share of the time
_SAME = 1e-6  #: thresholds are kept as float32
_SUSPECT = 3  #: values of k of n above the limit: more than a single spike


class Limits(NamedTuple):
    """Limits of each signal as parameters of the threshold rule; ``swap`` is in bytes per second."""

    waiting: threshold.Parameters
    steal: threshold.Parameters
    memory: threshold.Parameters
    pressure: threshold.Parameters
    swap: float
    network: threshold.Parameters


class Finding(NamedTuple):
    """Finding of one part: ``words`` for users, ``reason`` with the limits; other fields as in a verdict."""

    name: str
    outcome: Outcome
    words: str
    reason: str
    figures: tuple[Figure, ...] = ()
    excess: float | None = None
    lasting: float | None = None


def cpu(host: Host | Vm, parameters: threshold.Parameters, limits: Limits, was_hot: bool) -> Finding:
    """Waiting decides if known, otherwise the level; stolen time counts as waiting."""
    level = threshold.judge(host, parameters, was_hot)
    if level.outcome is ABSTAINED:
        return Finding("cpu", ABSTAINED, level.reason, level.reason, level.figures)
    busy = host.readings[parameters.metric]
    stolen = _beyond(host, limits.steal)
    waiting = rule_inputs.usable(host, WAITING, limits.waiting)
    if stolen is not None and stolen.outcome is HOT:
        words = f"the hypervisor takes {_percent(stolen.figures[0].value)} of the CPU time of {host.name}"
        return Finding("cpu", HOT, words, stolen.reason, (*stolen.figures, *level.figures), stolen.excess)
    if isinstance(waiting, Verdict):
        found = _by_level(host, busy, level, parameters, waiting.reason)
        found = _with_bursts(found, busy, None, was_hot)
    elif not (waiting.recent or (waiting.inputs is not None and _counts(waiting.inputs, limits.waiting))):
        counted = rule_inputs.above(waiting, limits.waiting.high, limits.waiting.n)
        reason = counted.reason if isinstance(counted, Verdict) else ""
        return Finding("cpu", ABSTAINED, reason, reason, level.figures)
    else:
        found = _by_waiting(host, busy, level, waiting, parameters, limits, was_hot)
        found = _with_bursts(found, busy, waiting.inputs, was_hot)
    if stolen is not None and found.outcome is NOT_HOT:
        return found._replace(outcome=SUSPECT, reason=f"{stolen.reason}; {found.reason}")
    return found


def _by_level(
    host: Host | Vm, busy: Reading, level: Verdict, parameters: threshold.Parameters, unknown: str
) -> Finding:
    """Finding by the level alone, because waiting is unknown."""
    outcome = SUSPECT if level.outcome is NOT_HOT and _is_suspect(busy, parameters) else level.outcome
    words = _load(host, busy)
    if outcome is not NOT_HOT:
        words += "; whether guests wait is unknown"
    reason = f"{level.reason}; waiting is unknown ({unknown})"
    return Finding("cpu", outcome, words, reason, level.figures, level.excess, _lasting(busy, parameters))


def _by_waiting(
    host: Host | Vm,
    busy: Reading,
    level: Verdict,
    waiting: Reading,
    parameters: threshold.Parameters,
    limits: Limits,
    was_hot: bool,
) -> Finding:
    limit = limits.waiting
    u, w = (rule_inputs.level(each, limit.smoothed) or 0.0 for each in (busy, waiting))
    first, waits = _newest(waiting) > limit.high, _waits(host, level, waiting, limit, was_hot)
    suspect = _is_suspect(busy, parameters)
    shown = rule_inputs.level_figure(waiting, limit.smoothed), Figure("waiting", limit.high, "ratio")
    reason = f"{level.reason}; waiting {w:.3g}, limit {limit.high:g}"
    if not (waits or first or suspect or level.outcome is HOT):  # the usual case
        words = f"CPU {_percent(u)}, waiting {_percent(w)}"
        return Finding("cpu", NOT_HOT, words, reason, (*level.figures, *shown), level.excess)
    lasting = _lasting(waiting, limit)
    words = f"{_waiters(host)} {_percent(w)} of the time{_for(lasting)}; {_load(host, busy)}"
    if waits and (level.outcome is HOT or u > parameters.low - EASE * was_hot):
        return Finding("cpu", HOT, words, reason, (*shown, *level.figures), w - limit.high, lasting)
    figures = (*level.figures, *shown)
    if first and u > parameters.low:
        return Finding("cpu", SUSPECT, words, reason, figures, w - limit.high, lasting)
    if level.outcome is HOT:
        words = f"saturated without harm: {words}"
        return Finding("cpu", SATURATED, words, reason, figures, level.excess, _busy_for(busy, parameters))
    outcome = SUSPECT if suspect else NOT_HOT
    return Finding("cpu", outcome, words, reason, figures, level.excess, _lasting(busy, parameters))


def _waits(host: Host | Vm, level: Verdict, waiting: Reading, limit: threshold.Parameters, was_hot: bool) -> bool:
    """Whether waiting exceeds the limit: for long enough by the threshold rule, still, or while the level is hot."""
    mean = rule_inputs.level(waiting, limit.smoothed) or 0.0
    if mean > limit.high and level.outcome is HOT:
        return True
    if mean <= (limit.low if was_hot else limit.high) and _newest(waiting) <= limit.high:
        return False
    fresh = threshold.judge(host, limit).outcome is HOT
    return fresh or (was_hot and threshold.judge(host, limit, True).outcome is HOT)


def _with_bursts(found: Finding, busy: Reading, waiting: DecisionInputs | None, was_hot: bool) -> Finding:
    """The finding adjusted by the learned bursts of the host: a possible burst is suspect until it is longer, or until
    guests have waited too long."""
    bursts = busy.inputs.bursts if busy.inputs is not None else None
    if bursts is None or not (bursts.total or bursts.regular):
        return found
    found = found._replace(figures=(*found.figures, *learned.figures(bursts)))
    if found.outcome is NOT_HOT:
        return found
    words = f"{found.words}; its bursts last up to {learned.longest(bursts):.0f} s"
    needed, waited = learned.needed(bursts), 0.0 if waiting is None else waiting.time_above_seconds
    if found.outcome is not HOT or was_hot or needed is None or waited >= learned.MOST_WAITING:
        return found._replace(words=words)
    reason = f"{found.reason}; it may be a burst until it lasts {needed:.0f} s"
    return found._replace(outcome=SUSPECT, words=words, reason=reason)


def memory(host: Host | Vm, limits: Limits) -> Finding:
    """Hot by use, by tasks waiting for memory, or by swap traffic."""
    used = rule_inputs.usable(host, MEMORY, limits.memory)
    if isinstance(used, Verdict):
        return Finding("memory", ABSTAINED, used.reason, used.reason, used.figures)
    words = f"memory {_percent(used.mean)} used"
    full, pressed = _beyond(host, limits.memory), _beyond(host, limits.pressure)
    if full is not None and full.outcome is HOT:
        return Finding("memory", HOT, words, full.reason, full.figures, full.excess)
    if pressed is not None and pressed.outcome is HOT:
        words = f"tasks of {host.name} wait for memory {_percent(pressed.figures[0].value)} of the time; {words}"
        return Finding("memory", HOT, words, pressed.reason, pressed.figures, pressed.excess)
    traffic = _swap_traffic(host, limits)
    if traffic is not None:
        figures = tuple(rule_inputs.level_figure(host.readings[metric], True) for metric in (*_SWAP, MEMORY))
        words = f"{host.name} moves {traffic / 1e6:.0f} MB/s from and to swap; {words}"
        most = max((host.readings[metric] for metric in _SWAP), key=lambda each: each.mean or 0.0)
        outcome = HOT if _is_held(most) else SUSPECT
        return Finding("memory", outcome, words, f"swap traffic {traffic:.3g} B/s, limit {limits.swap:g}", figures)
    beyond = full if full is not None else pressed
    if beyond is not None:
        return Finding("memory", SUSPECT, words, beyond.reason, beyond.figures, beyond.excess)
    return Finding("memory", NOT_HOT, words, words)


def _swap_traffic(host: Host | Vm, limits: Limits) -> float | None:
    """Swap traffic in both directions, in bytes per second; None if it is within its limit or unknown, or if pressure
    shows that no task waits for it."""
    pressure = host.readings.get(limits.pressure.metric)
    if pressure is not None and pressure.validity.startswith(VALID) and (pressure.mean or 0.0) < _NO_PRESSURE:
        return None
    found = [host.readings.get(metric) for metric in _SWAP]
    total = sum([each.mean or 0.0 for each in found if each is not None])
    if total <= limits.swap:
        return None
    usable = [rule_inputs.usable(host, metric, limits.memory) for metric in _SWAP]
    return None if any(isinstance(each, Verdict) for each in usable) else total


def network(host: Host | Vm, limits: Limits, was_hot: bool) -> Finding:
    """Finding on the busier direction by the threshold rule."""
    limit = limits.network
    used = rule_inputs.usable(host, limit.metric, limit)
    if isinstance(used, Verdict):
        return Finding("network", ABSTAINED, used.reason, used.reason, used.figures)
    words = f"network {_percent(used.mean)} of the link speed"
    if (used.mean or 0.0) <= limit.low and _newest(used) <= limit.high:
        return Finding("network", NOT_HOT, words, words)
    verdict = threshold.judge(host, limit, was_hot)
    outcome = SUSPECT if verdict.outcome is NOT_HOT and _is_suspect(used, limit) else verdict.outcome
    return Finding("network", outcome, words, verdict.reason, verdict.figures, verdict.excess, _lasting(used, limit))


def _beyond(host: Host | Vm, limit: threshold.Parameters) -> Verdict | None:
    """The verdict of the threshold rule on a signal; None if it is unknown, or average and newest value are within the
    limit. There is no hysteresis: the host may have been hot for another reason."""
    reading = host.readings.get(limit.metric)
    if reading is None or reading.mean is None:
        return None
    if reading.mean <= limit.high and _newest(reading) <= limit.high:
        return None
    verdict = threshold.judge(host, limit)
    if verdict.outcome is HOT and not _is_held(reading):
        return verdict._replace(outcome=SUSPECT)
    return None if verdict.outcome is ABSTAINED else verdict


def _is_held(reading: Reading) -> bool:
    """Whether the average exceeds its standard deviation: true for a level held for 0.7 of the time constant, false
    after a single value, however high."""
    return (reading.mean or 0.0) > (reading.deviation or 0.0)


def _is_suspect(reading: Reading, limit: threshold.Parameters) -> bool:
    """Whether the newest value exceeds the limit, or several recent values and the average do."""
    if _newest(reading) > limit.high:
        return True
    inputs = reading.inputs
    lately = inputs is not None and inputs.above >= _SUSPECT
    return lately and (reading.mean or 0.0) > (limit.high if limit.enter is None else limit.enter)


def _newest(reading: Reading) -> float:
    """The newest value if valid; an invalid one counts as 0."""
    return reading.last if reading.last is not None and reading.validity.startswith(VALID) else 0.0


def _lasting(reading: Reading, limit: threshold.Parameters) -> float | None:
    """Seconds for which the limit has been exceeded, if the filter counts against this limit."""
    inputs = reading.inputs
    return inputs.time_above_seconds or None if inputs is not None and _counts(inputs, limit) else None


def _counts(inputs: DecisionInputs, limit: threshold.Parameters) -> bool:
    """Whether the filter counts values above this limit."""
    return abs(inputs.threshold - limit.high) < _SAME


def _busy_for(busy: Reading, limit: threshold.Parameters) -> float | None:
    """Seconds for which the load has been high, including dips that do not end a burst."""
    bursts = busy.inputs.bursts if busy.inputs is not None else None
    return (bursts.open_seconds if bursts is not None else 0.0) or _lasting(busy, limit)


def _for(seconds: float | None) -> str:
    return f", for {seconds:.0f} s" if seconds else ""


def _waiters(host: Host | Vm) -> str:
    suffering = host.readings.get("vms_suffering_ratio")
    known = suffering is not None and suffering.validity.startswith(VALID) and (suffering.last or 0.0) > 0.0
    return f"guests of {host.name} wait" if known else f"tasks of {host.name} wait"


def _load(host: Host | Vm, busy: Reading) -> str:
    """The load in words: number of cores, and time above its limit."""
    cores, inputs = host.readings.get("cpu_count"), busy.inputs
    of = f" of {cores.last:.0f} cores" if cores is not None and cores.last is not None else ""
    seconds = inputs.time_above_seconds if inputs is not None else 0.0
    long = f", above {inputs.threshold:.0%} for {seconds:.0f} s" if inputs is not None and seconds else ""
    return f"CPU {_percent(busy.mean)}{of}{long}"


def _percent(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0%}"
