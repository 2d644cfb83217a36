"""Rolling replacement of parts, stopped in order or killed."""

from __future__ import annotations

import random
import signal
from collections.abc import Iterator

from experiments.chaos.installation import Installation
from experiments.chaos.kinds import Fault, kind
from experiments.chaos.service import Service

_PATIENCE = 10.0
_IN_ORDER = (0, -signal.SIGTERM)  #: the latter before it handles signals


def _either(dice: random.Random) -> float:
    return float(dice.randint(0, 1))


@kind("rolling", "worker", 0.0, 0.0, size=_either)
def replace_worker(installation: Installation, fault: Fault) -> Iterator[None]:
    """A filter worker is replaced: ended in order, or killed with ``size`` 1."""
    _replace(installation.workers[fault.target], fault)
    yield


@kind("rolling", "service", 0.0, 0.0, size=_either)
def replace_service(installation: Installation, fault: Fault) -> Iterator[None]:
    """A query service is replaced: ended in order, or killed with ``size`` 1."""
    _replace(installation.query_services[fault.target], fault)
    yield


def _replace(part: Service, fault: Fault) -> None:
    if fault.size:
        part.kill()
    else:
        part.stop(_PATIENCE)
        assert part.code in _IN_ORDER, f"{part.name} ended with exit code {part.code}"
    part.start()
