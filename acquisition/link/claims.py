"""Which hosts claim VMs of others, as a service has last seen it: kept with what was told, and read by ``status``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

PREFIX = "conflict:"  #: then the id of the host that claims
FRESH_SECONDS = 150.0  #: for which it holds: while it lasts, it is told again every ``REFRESH_SECONDS``
REFRESH_SECONDS = 60.0
_LONGEST = 100


class Claim(NamedTuple):
    """A host claims ``vms`` VMs, such as ``vm``, which runs on ``host`` (a name); so it was ``at``, by the clock of the
    service, seconds since 1970."""

    at: float
    vms: int
    vm: str
    host: str


def encode(claim: Claim) -> str:
    """As it is kept."""
    return json.dumps([claim.at, claim.vms, shown(claim.vm), shown(claim.host)])


def shown(text: str) -> str:
    """A text of a host, short and without what does not print."""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:_LONGEST])


def decode(text: str) -> Claim | None:
    """What is kept; None for what is none."""
    try:
        at, vms, vm, host = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    sound = isinstance(at, float) and math.isfinite(at) and type(vms) is int and type(vm) is type(host) is str
    return Claim(at, vms, vm, host) if sound else None


def fresh(told: Mapping[str, str], now: float) -> dict[int, Claim]:
    """The claims among what was told that hold at ``now``, by the id of the host that claims."""
    found: dict[int, Claim] = {}
    for name, text in told.items():
        number = name.removeprefix(PREFIX)
        claim = decode(text) if name.startswith(PREFIX) else None
        if claim is not None and len(number) == 16 and abs(now - claim.at) < FRESH_SECONDS:
            try:
                found[int(number, 16)] = claim
            except ValueError:
                continue
    return found
