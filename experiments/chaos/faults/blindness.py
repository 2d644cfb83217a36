"""Blindness faults: all filters, all probes or a whole shard away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from experiments.chaos.faults.nodes import lose_shard
from experiments.chaos.faults.targets import HEAL_SECONDS, broken, frozen, healthy, until
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind

_SETTLE = 5.0
_BLIND_AFTER = 3.0


@kind("blindness", "cluster", 12.0, 12.0, _SETTLE, blind_after=_BLIND_AFTER)
def filters_killed(installation: Installation, _fault: Fault) -> Iterator[None]:
    """kill -9 of all filter workers."""
    for worker in installation.workers:
        worker.kill()
    yield
    for worker in installation.workers:
        worker.start()
    _wait_until_current(installation)


@kind("blindness", "cluster", 12.0, 12.0, _SETTLE, blind_after=_BLIND_AFTER)
def filters_frozen(installation: Installation, _fault: Fault) -> Iterator[None]:
    """SIGSTOP of all filter workers."""
    with contextlib.ExitStack() as stack:
        for worker in installation.workers:
            stack.enter_context(frozen(worker))
        yield
    _wait_until_current(installation)


@kind("blindness", "cluster", 15.0, 15.0, _SETTLE, blind_after=_BLIND_AFTER)
def probes_killed(installation: Installation, _fault: Fault) -> Iterator[None]:
    """kill -9 of all probes."""
    for generator in installation.generators:
        generator.kill()
    yield
    _start_probes(installation)


@kind("blindness", "cluster", 15.0, 15.0, _SETTLE, blind_after=_BLIND_AFTER)
def probes_frozen(installation: Installation, _fault: Fault) -> Iterator[None]:
    """SIGSTOP of all probes."""
    with contextlib.ExitStack() as stack:
        for generator in installation.generators:
            stack.enter_context(frozen(generator))
        yield
    _wait_until_current(installation)


@kind("blindness", "cluster", 15.0, 15.0, _SETTLE, blind_after=_BLIND_AFTER)
def probes_cut(installation: Installation, _fault: Fault) -> Iterator[None]:
    """The links of all probes are cut."""
    with contextlib.ExitStack() as stack:
        for generator in installation.generators:
            stack.enter_context(broken(generator.host.link.cut()))
        yield
    _wait_until_current(installation)


@kind("blindness", "cluster", 15.0, 15.0, _SETTLE, blind_after=8.0)
def probes_stopped(installation: Installation, _fault: Fault) -> Iterator[None]:
    """All probes are stopped in order: they say goodbye."""
    for generator in installation.generators:
        generator.say_goodbye()
    yield
    _start_probes(installation)


@kind("blindness", "generator", 15.0, 15.0, _SETTLE, gone=True)
def some_probes_killed(installation: Installation, fault: Fault) -> Iterator[None]:
    """kill -9 of a share of the probes: their hosts look like dead ones, all others are current."""
    generator = installation.generators[fault.target]
    generator.kill()
    yield
    generator.start()
    _wait_until_current(installation)


@kind("blindness", "shard", 8.0, 8.0, _SETTLE)
def shard_frozen(installation: Installation, fault: Fault) -> Iterator[None]:
    """SIGSTOP of a master and its replica."""
    master, replica = healthy(installation, fault.target)
    with frozen(replica), frozen(master):
        yield
    installation.cluster.wait_healthy(HEAL_SECONDS)
    _wait_until_current(installation)


@kind("blindness", "shard", 12.0, 12.0, _SETTLE)
def shard_killed(installation: Installation, fault: Fault) -> Iterator[None]:
    """kill -9 of a master and its replica: the shard comes back with nothing in it."""
    with lose_shard.make(installation, fault):
        yield
    _wait_until_current(installation)


def _start_probes(installation: Installation) -> None:
    for generator in installation.generators:
        generator.start()
    _wait_until_current(installation)


def _wait_until_current(installation: Installation) -> None:
    until(installation.is_current, "not every host is current")
