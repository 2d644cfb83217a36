"""Director: carries out orders while hosts sample, in all generators."""

from __future__ import annotations

import gc
import math
import resource
import time
from collections.abc import Callable, Mapping
from typing import Any

from experiments.emulation.fleet import Fleet, HostT
from experiments.processes.control import Orders

#: Carries out an order; a true result ends the sampling.
Action = Callable[[dict[str, Any]], object]


class Director:
    """Called continuously by sampling loops, with whether orders have come; returns whether to stop. ``actions`` are
    the actions of orders, by the name in their ``do``. Writers due by the clock are looked for every ``look`` seconds;
    a paced loop alone serves them at their ticks, which is enough if none waits for a connection.
    """

    def __init__(
        self, fleet: Fleet[HostT], orders: Orders, actions: Mapping[str, Action], look: float = math.inf
    ) -> None:
        self._serve_due = fleet.serve_due
        self._orders = orders
        self._actions = actions
        self._look = look
        self._due = 0.0 if look < math.inf else math.inf

    def __call__(self, called: bool) -> bool:
        """See the class."""
        if self._due < math.inf and time.monotonic() >= self._due:
            self._due = time.monotonic() + self._look
            self._serve_due()
        if not called:
            return False
        answers = [self._actions[order["do"]](order) for order in self._orders.read()]
        return any(answers)


def raise_descriptor_limit() -> None:
    """Raise the limit of connections as far as the kernel permits."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def keep_what_lives() -> None:
    """Exclude a million long-lived objects from all further garbage collections."""
    gc.collect()
    gc.freeze()
