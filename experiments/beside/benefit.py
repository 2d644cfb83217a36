"""Benefit table: time to answer, errors and cost of each system."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from experiments.beside import script
from experiments.beside.prometheus import SETTINGS
from experiments.beside.script import Overload
from experiments.beside.world import OURS, World
from experiments.harness import usage

_POLL_SECONDS = 0.5
_LATE_SECONDS = 60.0  #: after an overload; an alarm within them is late, not false
_CONFIDENCE = 0.95


class Hot(NamedTuple):
    """One answer: hosts that a system called hot, ``at`` seconds into the part."""

    at: float
    hosts: frozenset[int]


def watch(world: World, seconds: float, seed: int, progress: Callable[[float], None]) -> dict[str, Any]:
    """Run the load for ``seconds`` and query twice a second; the figures of all systems by column."""
    plan, overloads = script.benefit(len(world.hosts), seconds, seed)
    began = time.time()
    world.plan(script.shifted(plan, began))
    before, sent = usage.read(world.roles()), _wire(world)
    seen: dict[str, list[Hot]] = {}
    while (at := time.time() - began) < seconds:
        progress(seconds - at)
        for system, answers in world.ask().items():
            hot = frozenset(host.number for host in world.hosts if host.name in answers and answers[host.name].hot)
            seen.setdefault(system, []).append(Hot(time.time() - began, hot))
        time.sleep(max(0.0, began + at + _POLL_SECONDS - time.time()))
    spent = usage.spent(before, usage.read(world.roles()))
    wire = [(after - start) / seconds / len(world.hosts) for start, after in zip(sent, _wire(world), strict=True)]
    costs = _costs(world, spent, seconds, wire)
    return {system: {**worth(hot, overloads, seconds), **costs[system]} for system, hot in seen.items()}


def worth(hot: Sequence[Hot], overloads: Sequence[Overload], seconds: float) -> dict[str, Any]:
    """Delays from each onset to the first answer that calls its host hot, overloads that ended before it, and alarms
    that began on a host not overloaded then or in the minute before. Pure."""
    delays, missed, false, healthy = [], 0, 0, 0.0
    for each in overloads:
        found = [answer.at for answer in hot if each.onset <= answer.at <= each.end and each.host in answer.hosts]
        if found:
            delays.append(found[0] - each.onset)
        else:
            missed += 1
        late = min(seconds, each.end + _LATE_SECONDS)
        healthy += each.onset + seconds - late
        begun = [
            answer.at
            for last, answer in zip([Hot(0.0, frozenset()), *hot], hot, strict=False)
            if each.host in answer.hosts - last.hosts
        ]
        false += sum(not each.onset <= at < late for at in begun)
    hours = healthy / 3600.0
    low, high = poisson_interval(false)
    return {
        "overloads": len(overloads),
        "missed": missed,
        "delay_seconds": _quantiles(delays),
        "false_alarms": false,
        "healthy_host_hours": round(hours, 3),
        "false_alarms_per_host_hour": [round(each / hours, 2) for each in (false, low, high)] if hours else None,
    }


def poisson_interval(count: int) -> tuple[float, float]:
    """The exact central 95% interval of the expectation of a count (Garwood 1936), by bisection."""
    tail = (1.0 - _CONFIDENCE) / 2.0

    def at_most(most: int, mean: float) -> float:
        return sum(math.exp(-mean + n * math.log(mean) - math.lgamma(n + 1)) for n in range(most + 1))

    def solve(most: int, part: float) -> float:
        low, high = 1e-9, count + 10.0 * math.sqrt(count + 1.0) + 10.0
        for _ in range(60):
            middle = (low + high) / 2.0
            low, high = (middle, high) if at_most(most, middle) > part else (low, middle)
        return low

    return (solve(count - 1, 1.0 - tail) if count else 0.0), solve(count, tail)


def _quantiles(delays: Sequence[float]) -> dict[str, float] | None:
    if not delays:
        return None
    p50, p95 = np.percentile(np.asarray(delays), [50, 95])
    return {"p50": round(float(p50), 1), "p95": round(float(p95), 1)}


def _wire(world: World) -> tuple[int, int]:
    exporters, probes = zip(*(host.bytes_on_the_wire() for host in world.hosts), strict=True)
    return sum(exporters), sum(probes)


def _costs(world: World, spent: Mapping[str, float], seconds: float, wire: Sequence[float]) -> dict[str, Any]:
    """By column. CPU time and bytes of the exporters, which three systems scrape, are shared by their scrapes."""
    memory = usage.memory(world.roles())
    hosts, scrapes = len(world.hosts), {each.name: 1.0 / each.interval for each in SETTINGS}
    found: dict[str, Any] = {}
    for server in world.servers:
        setting, role = server.setting, f"Prometheus {server.setting.name}"
        share = scrapes[setting.name] / sum(scrapes.values())
        cost = {
            "host_cpu_percent": _percent(spent["exporters"] * share / hosts, seconds),
            "host_memory_bytes": memory["exporters"] // hosts,
            "host_bytes_per_second": round(wire[0] * share),
            "store_cpu_percent": _percent(spent[role], seconds),
            "store_memory_bytes": memory[role],
            "store_disk_bytes": _size(server.data),
        }
        found |= dict.fromkeys(setting.alerts, cost)
    store = "shard, filter, service"
    found[OURS] = {
        "host_cpu_percent": _percent(spent["probes"] / hosts, seconds),
        "host_memory_bytes": memory["probes"] // hosts,
        "host_bytes_per_second": round(wire[1]),
        "store_cpu_percent": _percent(spent[store], seconds),
        "store_memory_bytes": memory[store],
        "store_disk_bytes": 0,
    }
    return found


def _percent(cpu_seconds: float, seconds: float) -> float:
    """Percent of one core."""
    return round(100.0 * cpu_seconds / seconds, 3)


def _size(directory: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.is_file())
