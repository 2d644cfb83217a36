"""Fault targets: current masters and replicas, and waiting for recovery.

A fault is asked for by number (shard 1, worker 0) and finds out by itself who is master at that moment.
Everything blocks: each group of kinds has a thread of its own. A healing returns when the
target is well again, as far as that can be asked. ``Skipped`` when the fault cannot be made now
without leaving what the design promises to survive.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from acquisition.errors import ShardpulseError
from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault
from experiments.chaos.service import Service
from experiments.processes.postgresql import Server
from experiments.processes.waiting import eventually
from experiments.testbed import Fault as LinkFault
from experiments.testbed import Node

_HEALTHY_SECONDS = 10.0
HEAL_SECONDS = 45.0


class Skipped(ShardpulseError):
    """The fault was not made, and why."""


def healthy(installation: Installation, shard: int) -> tuple[Node, Node]:
    """Master and replica of a shard, in sync, in a cluster that is well. Raises Skipped."""
    try:
        installation.cluster.wait_healthy(_HEALTHY_SECONDS)
        return installation.roles(shard)
    except ShardpulseError as error:
        raise Skipped(f"the cluster is not well: {error}") from error


def master_of(installation: Installation, fault: Fault) -> Node:
    """Who is master of the fault's shard now. Raises Skipped."""
    try:
        return installation.roles(fault.target)[0]
    except ShardpulseError as error:
        raise Skipped(str(error)) from error


@contextlib.contextmanager
def broken(fault: LinkFault) -> Iterator[None]:
    """Heal a fault of a link, whatever happens."""
    try:
        yield
    finally:
        fault.heal()


@contextlib.contextmanager
def frozen(part: Service | Node | Server) -> Iterator[None]:
    """SIGSTOP, and SIGCONT whatever happens."""
    part.freeze()
    try:
        yield
    finally:
        part.thaw()


def until(done: Callable[[], bool], problem: str) -> None:
    """Wait until something is done. Raises TemporaryError when it takes too long."""
    eventually(done, HEAL_SECONDS, problem)
