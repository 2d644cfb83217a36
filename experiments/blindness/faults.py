"""What is done to the pipeline, and how it is undone."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import NamedTuple

from experiments.blindness.pipeline import Pipeline

Act = Callable[[Pipeline], object]


class Fault(NamedTuple):
    """``seconds`` between ``do`` and ``undo``; nobody can be seen from ``blind_after`` seconds on (0.0: most can).
    ``gone`` names hosts whose probe alone is dead: these cannot be told from dead ones."""

    name: str
    seconds: float
    do: Act
    undo: Act
    blind_after: float = 0.0
    gone: Callable[[Pipeline], frozenset[str]] = lambda _: frozenset()


FAULTS = (
    Fault("filter killed", 12.0, lambda it: it.kill_filter(), lambda it: it.start_filter(), 3.0),
    Fault("filter frozen", 12.0, lambda it: it.signal_filter(signal.SIGSTOP),
          lambda it: it.signal_filter(signal.SIGCONT), 3.0),
    Fault("probes killed", 15.0, lambda it: it.kill_probes(), lambda it: it.start_probes(), 3.0),
    Fault("probes frozen", 15.0, lambda it: it.signal_probes(signal.SIGSTOP),
          lambda it: it.signal_probes(signal.SIGCONT), 3.0),
    Fault("probes cut", 15.0, lambda it: it.tell_probes("cut"), lambda it: it.tell_probes("heal"), 3.0),
    Fault("probes stopped", 15.0, lambda it: it.stop_probes(), lambda it: it.start_probes(), 8.0),
    Fault("one probe killed", 15.0, lambda it: it.kill_probes(last=True), lambda it: it.start_probes(last=True), 0.0,
          lambda it: it.last_host),
    Fault("shard frozen", 8.0, lambda it: it.signal_shard(signal.SIGSTOP),
          lambda it: it.signal_shard(signal.SIGCONT)),
    Fault("shard killed", 12.0, lambda it: it.signal_shard(signal.SIGKILL), lambda it: it.revive()),
)  # fmt: skip
