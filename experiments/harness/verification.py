"""Verification of the smoothed state against the scalar model.

It goes entity by entity, sample by sample.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

from acquisition.model.metric import Metric
from acquisition.snapshot.values.block import Block
from acquisition.wire.table import FIRST_SEEN, Entity
from experiments.emulation.membership import Members, Membership, entity, first_serials
from experiments.emulation.values import Strip
from experiments.emulation.workload import Workload, host_number, resource_set, scale
from experiments.harness.scalar_model import Observation, State, run

RELATIVE = 1e-5
ABSOLUTE = 1e-6  #: of an ordinary value of the metric; squared for the variance, per second for the trend
_MOST_EXAMPLES = 20


class Verdict(NamedTuple):
    """``samples`` were compared in mean, variance, trend, last value and code; ``mismatches`` differ.

    ``worst`` is the largest difference as a multiple of the tolerance (up to 1 is equal), ``by_host`` the number of
    differing samples by host number.
    """

    entities: int
    samples: int
    mismatches: int
    worst: float
    examples: tuple[str, ...]
    by_host: Mapping[int, int]

    def of_others(self, hosts: Set[int]) -> int:
        """Number of differing samples of other hosts."""
        return sum(count for host, count in self.by_host.items() if host not in hosts)


class _History(NamedTuple):
    """History of one host: the rows of each frame and its monotonic time."""

    members: list[Members]
    times: Sequence[float]


def choose_hosts(workload: Workload, count: int) -> list[int]:
    """The hosts of ``count`` entities to be checked, chosen before the run so that they log."""
    choice = random.Random(f"hosts {workload.seed}")
    return [choice.randrange(workload.hosts) for _ in range(count)]


def verify(
    blocks: Mapping[int, Block],
    workload: Workload,
    logs: Mapping[int, Sequence[float]],
    hosts: Sequence[int],
    tau: float,
) -> Verdict:
    """Compare one random entity of each of ``hosts`` (repeated hosts: several entities).

    ``blocks`` are those of a ``latest`` snapshot by host number, ``logs`` the monotonic times of all
    frames by host index.
    """
    strip = Strip(workload)
    metrics = resource_set(workload.metrics).metrics
    choice = random.Random(f"entities {workload.seed}")
    histories: dict[int, _History] = {}
    problems: list[str] = []
    by_host: Counter[int] = Counter()
    samples, worst = 0, 0.0
    for host in hosts:
        if host not in histories:
            histories[host] = _History(_replay(workload, host, len(logs[host])), logs[host])
        history = histories[host]
        serial = choice.choice(history.members[-1].serials) if history.times else 0
        samples += len(metrics)
        block = blocks.get(host_number(host))
        if block is None or not history.times or not block.has_values:
            found = [(f"host {host} has no smoothed values", 0.0)] * len(metrics)
        else:
            found = _compare(block, strip, history, host, serial, metrics, tau)
        wrong = [text for text, _ in found if text]
        problems += wrong
        by_host[host_number(host)] += len(wrong)
        worst = max([worst, *(size for _, size in found)])
    return Verdict(len(hosts), samples, len(problems), worst, tuple(problems[:_MOST_EXAMPLES]), by_host)


def as_sent(named: Entity) -> Entity:
    """An entity without the label added by the filter."""
    return named._replace(labels={name: text for name, text in named.labels.items() if name != FIRST_SEEN})


def _replay(workload: Workload, host: int, frames: int) -> list[Members]:
    membership = Membership(workload, host, first_serials(workload))
    rows = []
    for number in range(frames):
        membership.step(number)
        rows.append(membership.members)
    return rows


def _compare(
    block: Block, strip: Strip, history: _History, host: int, serial: int, metrics: Sequence[Metric], tau: float
) -> list[tuple[str, float]]:
    """For each metric of one entity: the fault (empty: none) and the largest difference."""
    expected_row = entity(host, serial)
    if block.raw_ids != history.members[-1].ids:
        return [(f"host {host}: the rows are not those of its last frame", math.inf)] * len(metrics)
    row = history.members[-1].serials.index(serial)
    named = as_sent(block.entities[row])
    if named != expected_row:
        return [(f"host {host} row {row} is named {named} and not {expected_row}", math.inf)] * len(metrics)
    found = []
    places = _places(strip, history, host, serial)
    for column, metric in enumerate(metrics):
        values, codes = strip.values[:, column], strip.codes[:, column]
        sent = [Observation(monotonic, float(values[place]), int(codes[place])) for monotonic, place in places]
        state = run(sent, tau)
        figures = {name: float(block.plane(name)[row, column]) for name in ("mean", "variance", "trend", "last")}
        size = max(_differences(figures, state, scale(metric)))
        code = int(block.codes()[row, column])
        text = f"host {host} entity {serial} {metric.name}: {figures} code {code}, expected {state}"
        found.append((text if size > 1 or code != state.code else "", size))
    return found


def _places(strip: Strip, history: _History, host: int, serial: int) -> list[tuple[float, int]]:
    """Monotonic time and row of the strip of every frame with an entity."""
    start = strip.start(host)
    return [
        (monotonic, strip.row(start, number) + members.serials.index(serial))
        for number, (members, monotonic) in enumerate(zip(history.members, history.times, strict=True))
        if serial in members.serials
    ]


def _differences(found: Mapping[str, float], state: State, size: float) -> list[float]:
    """Differences of each figure as multiples of the tolerance; ``last`` must be exact."""
    return [
        _difference(found["mean"], state.mean, size),
        _difference(found["variance"], state.variance, size * size),
        _difference(found["trend"], state.trend, size),
        0.0 if _same(found["last"], state.last) else math.inf,
    ]


def _difference(found: float, expected: float, size: float) -> float:
    if math.isnan(found) or math.isnan(expected):
        return 0.0 if math.isnan(found) and math.isnan(expected) else math.inf
    return abs(found - expected) / (RELATIVE * abs(expected) + ABSOLUTE * size)


def _same(found: float, expected: float) -> bool:
    return found == expected or (math.isnan(found) and math.isnan(expected))
