"""Faults of filter workers and of the probes' processes and clocks."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.chaos.faults.registry import register
from experiments.chaos.plant import Plant
from experiments.chaos.schedule import Fault


@register
def kill_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a filter worker."""
    worker = plant.workers[fault.target]
    worker.kill()
    yield
    worker.start()


@register
def freeze_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a filter worker: it wakes up and still believes that it owns its partitions."""
    worker = plant.workers[fault.target]
    worker.freeze()
    try:
        yield
    finally:
        worker.thaw()


@register
def kill_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """kill -9 of a share of the probes; they go on from their rings."""
    generator = plant.generators[fault.target]
    generator.kill()
    yield
    generator.start()


@register
def freeze_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a share of the probes: they miss ticks, and their connections time out."""
    generator = plant.generators[fault.target]
    generator.freeze()
    try:
        yield
    finally:
        generator.thaw()


@register
def step_clock(plant: Plant, fault: Fault) -> Iterator[None]:
    """The wall clock of a share of the hosts is stepped, and stays so."""
    plant.generators[fault.target].step_clock(fault.size)
    yield
