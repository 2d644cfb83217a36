"""Fault targets: current masters and replicas, and waiting for recovery.

A fault has a target number (shard 1, worker 0) and finds the current master by itself. Everything blocks: each group of
kinds has a thread of its own. Healing returns when the target is well again, as far as that can be checked. ``Skipped``
if the fault would now exceed what the design promises to survive.
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
    """A fault was not made; the reason."""


def healthy(installation: Installation, shard: int) -> tuple[Node, Node]:
    """Master and replica of a shard, in sync, in a healthy cluster. Raises Skipped."""
    try:
        installation.cluster.wait_healthy(_HEALTHY_SECONDS)
        return installation.roles(shard)
    except ShardpulseError as error:
        raise Skipped(f"the cluster is not well: {error}") from error


def master_of(installation: Installation, fault: Fault) -> Node:
    """Current master of the fault's shard. Raises Skipped."""
    try:
        return installation.roles(fault.target)[0]
    except ShardpulseError as error:
        raise Skipped(str(error)) from error


@contextlib.contextmanager
def broken(fault: LinkFault) -> Iterator[None]:
    """Heal a link fault in any case."""
    try:
        yield
    finally:
        fault.heal()


@contextlib.contextmanager
def frozen(part: Service | Node | Server) -> Iterator[None]:
    """SIGSTOP, and SIGCONT in any case."""
    part.freeze()
    try:
        yield
    finally:
        part.thaw()


def until(done: Callable[[], bool], problem: str) -> None:
    """Wait for a condition. Raises TemporaryError if that takes too long."""
    eventually(done, HEAL_SECONDS, problem)
