"""Faults of links: late, lost, slow, cut."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.chaos.faults.registry import broken, master_of, register
from experiments.chaos.plant import Plant
from experiments.chaos.schedule import Fault


@register
def delay_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a master are late."""
    with broken(master_of(plant, fault).host.link.delay(fault.size, fault.size / 2)):
        yield


@register
def loss_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a master are lost now and then."""
    with broken(master_of(plant, fault).host.link.loss(fault.size)):
        yield


@register
def rate_shard(plant: Plant, fault: Fault) -> Iterator[None]:
    """A master's link is slow."""
    with broken(master_of(plant, fault).host.link.rate(fault.size)):
        yield


@register
def delay_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a worker are late."""
    with broken(plant.workers[fault.target].host.link.delay(fault.size, fault.size / 2)):
        yield


@register
def loss_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a worker are lost now and then."""
    with broken(plant.workers[fault.target].host.link.loss(fault.size)):
        yield


@register
def cut_worker(plant: Plant, fault: Fault) -> Iterator[None]:
    """A worker's link is cut: it believes that it owns its partitions, and another takes over."""
    with broken(plant.workers[fault.target].host.link.cut()):
        yield


@register
def delay_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a share of the probes are late."""
    with broken(plant.generators[fault.target].host.link.delay(fault.size, fault.size / 2)):
        yield


@register
def loss_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """Packets to and from a share of the probes are lost now and then."""
    with broken(plant.generators[fault.target].host.link.loss(fault.size)):
        yield


@register
def cut_generator(plant: Plant, fault: Fault) -> Iterator[None]:
    """The link of a share of the probes is cut: they go on sampling."""
    with broken(plant.generators[fault.target].host.link.cut()):
        yield
