"""One run: shards, the slow filter, the hosts, and a row of figures for every second."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acquisition.shards.launch import start_shards
from experiments.harness.quantiles import percentiles
from experiments.overload.observer import Observer
from experiments.overload.scenario import CLASSES, Scenario
from experiments.processes.control import Child, python
from experiments.testbed.cluster import wait_until

_POLL = 0.1
_ANSWER_SECONDS = 90.0
Row = dict[str, Any]


def run(scenario: Scenario, directory: Path) -> tuple[list[Row], dict[str, Any]]:
    """The rows of all seconds, and the counts of the end. Raises ShardpulseError when a part fails."""
    with _parts(scenario, directory) as (generator, observer):
        wait_until(observer.all_fresh, time.monotonic() + _ANSWER_SECONDS, "the filter does not catch up at the start")
        observer.take()
        rows: list[Row] = []
        began = time.monotonic()
        for high, seconds in (
            (False, scenario.calm_seconds),
            (True, scenario.high_seconds),
            (False, scenario.after_seconds),
        ):
            generator.send({"do": "load", "high": high})
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                rows.append(_second(generator, observer, began, high, rows[-1] if rows else None))
        generator.send({"do": "stop"})
        shedding = dict.fromkeys(CLASSES, 0)  # frames that say so may wait in the shards until now
        while not generator.speaks(_POLL):
            shedding = _most(shedding, observer)
        final = generator.receive(_ANSWER_SECONDS)
        observer.poll()
        return rows, final | observer.sums._asdict() | {"shedding": shedding}


def _most(shedding: dict[str, int], observer: Observer) -> dict[str, int]:
    """The most hosts that shed by class, with one more look."""
    observer.poll()
    return {kind: max(most, observer.shedding[kind]) for kind, most in shedding.items()}


def _second(generator: Child, observer: Observer, began: float, high: bool, last: Row | None) -> Row:
    """Look for a second; the figures of it."""
    end = time.monotonic() + 1.0
    shedding = dict.fromkeys(CLASSES, 0)  # the most at any moment of it
    while time.monotonic() < end:
        shedding = _most(shedding, observer)
        time.sleep(_POLL)
    generator.send({"do": "mark"})
    counts = generator.receive(_ANSWER_SECONDS)
    ages, latencies = observer.take()
    row: Row = {"seconds": round(time.monotonic() - began, 3), "high": high, **counts, **observer.sums._asdict()}
    for kind in CLASSES:
        row[f"age_{kind}"] = percentiles(ages[kind])
        row[f"freshness_{kind}"] = percentiles(latencies[kind])
        row[f"shedding_{kind}"] = shedding[kind]
        made, shed = counts["made"][kind], counts["shed"][kind]
        if last is not None:
            made, shed = made - last["made"][kind], shed - last["shed"][kind]
        row[f"shed_share_{kind}"] = round(min(1.0, shed / made), 4) if made else 0.0  # a backlog goes at once
    return row


@contextlib.contextmanager
def _parts(scenario: Scenario, directory: Path) -> Iterator[tuple[Child, Observer]]:
    config = directory / "filter.toml"
    config.write_text("[filter]\ntau_seconds = 5.0\n")
    with contextlib.ExitStack() as stack:
        shards = stack.enter_context(start_shards(scenario.shards, directory / "shards"))
        cluster = shards.connect(timeout=10.0)
        stack.callback(cluster.close)
        addresses = [str(address) for address in shards.addresses]
        arguments = (str(scenario.capacity_rate), str(config), ",".join(addresses))
        stack.enter_context(Child("slow filter", python("experiments.overload.slow_filter", *arguments)))
        generator = stack.enter_context(Child("generator", python("experiments.overload.generator")))
        generator.send({"scenario": scenario._asdict(), "shards": addresses})
        generator.receive(_ANSWER_SECONDS)
        yield generator, Observer(cluster, scenario)
