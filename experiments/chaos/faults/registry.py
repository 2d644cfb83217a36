"""The registry of faults, and what several of them need.

A fault is asked for by number (shard 1, worker 0) and finds out by itself who is master at that moment.
Everything blocks: each lane of the schedule has a thread of its own. A healing returns when the
target is well again, as far as that can be asked. ``Skipped`` when the fault cannot be made now
without leaving what the design promises to survive.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from acquisition.errors import ShardpulseError, TemporaryError
from experiments.chaos.plant import Plant
from experiments.chaos.schedule import Fault
from experiments.testbed import Fault as LinkFault
from experiments.testbed import Node

_HEALTHY_SECONDS = 10.0
HEAL_SECONDS = 45.0

Make = Callable[[Plant, Fault], AbstractContextManager[None]]

#: kind -> what makes the fault when entered and heals it when left
REGISTRY: dict[str, Make] = {}


class Skipped(ShardpulseError):
    """The fault was not made, and why."""


def register(make: Callable[[Plant, Fault], Iterator[None]]) -> Make:
    """Enter a fault under the name of its function."""
    REGISTRY[make.__name__] = contextlib.contextmanager(make)
    return REGISTRY[make.__name__]


def healthy(plant: Plant, shard: int) -> tuple[Node, Node]:
    """Master and replica of a shard, in sync, in a cluster that is well. Raises Skipped."""
    try:
        plant.cluster.wait_healthy(_HEALTHY_SECONDS)
        return plant.roles(shard)
    except ShardpulseError as error:
        raise Skipped(f"the cluster is not well: {error}") from error


def master_of(plant: Plant, fault: Fault) -> Node:
    """Who is master of the fault's shard now. Raises Skipped."""
    try:
        return plant.roles(fault.target)[0]
    except ShardpulseError as error:
        raise Skipped(str(error)) from error


@contextlib.contextmanager
def broken(fault: LinkFault) -> Iterator[None]:
    """Heal a fault of a link, whatever happens."""
    try:
        yield
    finally:
        fault.heal()


def until(done: Callable[[], bool], problem: str) -> None:
    """Wait until something is done. Raises TemporaryError when it takes too long."""
    deadline = time.monotonic() + HEAL_SECONDS
    while True:
        reason = problem
        try:
            if done():
                return
        except ShardpulseError as error:
            reason = f"{problem}: {error}"
        if time.monotonic() > deadline:
            raise TemporaryError(reason)
        time.sleep(0.1)
