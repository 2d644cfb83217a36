"""Regressions found by the archive, kept in the shards for ``status``."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from acquisition.terminal import printable

PREFIX = "regression:"  #: followed by its host, and the series
_FRESH_PERIODS = 3.0  #: validity in periods; an archiver judges again after each
_LONGEST = 100  #: characters of a name


class Regression(NamedTuple):
    """A metric (``SET.METRIC``) of an entity that got worse ``since``, by ``change`` of its usual level (-0.1: 10%
    less); ``chance`` is the probability that jitter alone looks like it. Judged ``at``; both are in seconds since
    1970, by the shards' clock. ``period`` in seconds is that of the comparison."""

    at: float
    period: float
    host: str
    entity: str
    metric: str
    since: float
    change: float
    chance: float


def encode(one: Regression) -> str:
    """Text form, with names short and printable."""
    names = (printable(name[:_LONGEST]) for name in (one.host, one.entity, one.metric))
    return json.dumps([one.at, one.period, *names, one.since, one.change, one.chance])


def decode(text: str) -> Regression | None:
    """Regression in ``text``; None if it is invalid."""
    try:
        found = Regression(*json.loads(text))
    except (ValueError, TypeError, RecursionError):
        return None
    sound = all(type(value) is str for value in found[2:5]) and all(
        type(value) is float and math.isfinite(value) for value in found[:2] + found[5:]
    )
    return found if sound else None


def is_fresh(one: Regression, now: float) -> bool:
    """Whether an archiver has confirmed it lately."""
    return abs(now - one.at) < _FRESH_PERIODS * one.period


def fresh(reported: Iterable[Mapping[str, str]], now: float) -> list[Regression]:
    """Regressions in ``reported``, a mapping for each partition, that hold at ``now``, the largest first."""
    texts = [text for one in reported for name, text in one.items() if name.startswith(PREFIX)]
    found = [one for one in map(decode, texts) if one is not None and is_fresh(one, now)]
    return sorted(found, key=lambda one: -abs(one.change))
