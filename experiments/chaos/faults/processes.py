"""Faults of filter workers and of the probes' processes and clocks."""

from __future__ import annotations

import random
from collections.abc import Iterator

from experiments.chaos.faults.targets import frozen
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind


def _step(dice: random.Random) -> float:
    """Half a second to an hour, in either direction, small steps as often as large ones."""
    return round(dice.choice((-1, 1)) * 10 ** dice.uniform(-0.3, 3.55), 3)


@kind("workers", "worker", 0.5, 5.0, 1.0)
def kill_worker(installation: Installation, fault: Fault) -> Iterator[None]:
    """kill -9 of a filter worker."""
    worker = installation.workers[fault.target]
    worker.kill()
    yield
    worker.start()


@kind("workers", "worker", 1.0, 15.0, 1.0)
def freeze_worker(installation: Installation, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a filter worker: it wakes up and still believes that it owns its partitions."""
    with frozen(installation.workers[fault.target]):
        yield


@kind("generators", "generator", 0.2, 5.0, 1.0)
def kill_generator(installation: Installation, fault: Fault) -> Iterator[None]:
    """kill -9 of a share of the probes; they go on from their rings."""
    generator = installation.generators[fault.target]
    generator.kill()
    yield
    generator.start()


@kind("generators", "generator", 0.5, 8.0, 1.0)
def freeze_generator(installation: Installation, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a share of the probes: they miss ticks, and their connections time out."""
    with frozen(installation.generators[fault.target]):
        yield


@kind("clocks", "generator", 0.0, 0.0, size=_step, alone=False)
def step_clock(installation: Installation, fault: Fault) -> Iterator[None]:
    """The wall clock of a share of the hosts is stepped, and stays so."""
    installation.generators[fault.target].step_clock(fault.size)
    yield
