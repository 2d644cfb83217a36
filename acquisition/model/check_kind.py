"""Registration of a sample check: its name, settings and description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Parameter(NamedTuple):
    """A key of a check's table, beside ``enabled``.

    ``default`` says what it is: a number, a whole number, or, if it is an empty mapping, limits [low, high] by
    metric. A number lies between ``low`` and ``high``, inclusive; ``help`` says what it means.
    """

    name: str
    default: float | Mapping[str, tuple[float, float]]
    low: float
    high: float
    help: str


class CheckKind(NamedTuple):
    """A check that is registered. ``help`` is one sentence; ``build`` makes the check of a resource set from
    that and the check's table, already validated: a function of a reading (``probes.checks.check.Check``)."""

    help: str
    build: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
