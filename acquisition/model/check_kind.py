"""Registration of a sample check: its name, settings and description."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Parameter(NamedTuple):
    """Key of a check's table, beside ``enabled``.

    ``default`` determines the type: a number, a whole number, or, for an empty mapping, limits [low, high] by
    metric. A number lies between ``low`` and ``high``, inclusive; ``help`` is its meaning.
    """

    name: str
    default: float | Mapping[str, tuple[float, float]]
    low: float
    high: float
    help: str


class CheckKind(NamedTuple):
    """A registered check. ``help`` is one sentence; ``build`` makes the check of a resource set from
    the set and the check's validated table: a function of a reading (``probes.checks.check.Check``)."""

    help: str
    build: Callable[..., Any]
    parameters: tuple[Parameter, ...] = ()
