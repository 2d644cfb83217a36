"""Faults of links: late, lost, slow, cut."""

from __future__ import annotations

from collections.abc import Iterator

from experiments.chaos.faults.targets import broken, master_of
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, between, kind


@kind("links", "shard", 3.0, 10.0, size=between(0.002, 0.06))
def delay_shard(installation: Installation, fault: Fault) -> Iterator[None]:
    """Packets to and from a master are late."""
    with broken(master_of(installation, fault).host.link.delay(fault.size, fault.size / 2)):
        yield


@kind("links", "shard", 3.0, 10.0, size=between(0.002, 0.05))
def loss_shard(installation: Installation, fault: Fault) -> Iterator[None]:
    """Packets to and from a master are lost now and then."""
    with broken(master_of(installation, fault).host.link.loss(fault.size)):
        yield


@kind("links", "shard", 3.0, 10.0, size=between(4e6, 4e7))
def rate_shard(installation: Installation, fault: Fault) -> Iterator[None]:
    """A master's link is slow."""
    with broken(master_of(installation, fault).host.link.rate(fault.size)):
        yield


@kind("links", "worker", 3.0, 10.0, size=between(0.002, 0.06))
def delay_worker(installation: Installation, fault: Fault) -> Iterator[None]:
    """Packets to and from a worker are late."""
    with broken(installation.workers[fault.target].host.link.delay(fault.size, fault.size / 2)):
        yield


@kind("links", "worker", 3.0, 10.0, size=between(0.002, 0.05))
def loss_worker(installation: Installation, fault: Fault) -> Iterator[None]:
    """Packets to and from a worker are lost now and then."""
    with broken(installation.workers[fault.target].host.link.loss(fault.size)):
        yield


@kind("workers", "worker", 2.0, 10.0, 1.0)
def cut_worker(installation: Installation, fault: Fault) -> Iterator[None]:
    """A worker's link is cut: it believes that it owns its partitions, and another takes over."""
    with broken(installation.workers[fault.target].host.link.cut()):
        yield


@kind("links", "generator", 3.0, 10.0, size=between(0.002, 0.06))
def delay_generator(installation: Installation, fault: Fault) -> Iterator[None]:
    """Packets to and from a share of the probes are late."""
    with broken(installation.generators[fault.target].host.link.delay(fault.size, fault.size / 2)):
        yield


@kind("links", "generator", 3.0, 10.0, size=between(0.002, 0.05))
def loss_generator(installation: Installation, fault: Fault) -> Iterator[None]:
    """Packets to and from a share of the probes are lost now and then."""
    with broken(installation.generators[fault.target].host.link.loss(fault.size)):
        yield


@kind("generators", "generator", 2.0, 15.0, 1.0)
def cut_generator(installation: Installation, fault: Fault) -> Iterator[None]:
    """The link of a share of the probes is cut: they go on sampling."""
    with broken(installation.generators[fault.target].host.link.cut()):
        yield
