"""Which hosts claim VMs of others, as a service saw it last: kept beside its other events, and read by ``status``."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import NamedTuple

from acquisition.printable import printable

PREFIX = "conflict:"  #: then the id of the host that claims
FRESH_SECONDS = 150.0  #: for which it holds; a service writes it again every ``REFRESH_SECONDS`` while it lasts
REFRESH_SECONDS = 60.0
LONGEST = 100  #: characters of a name


class Claim(NamedTuple):
    """A host claims ``vms`` VMs, such as ``vm``, which runs on ``host`` (a name); so it was ``at``, by the clock of the
    service, seconds since 1970."""

    at: float
    vms: int
    vm: str
    host: str


def encode(claim: Claim) -> str:
    """A claim as text, its names short and printable."""
    return json.dumps([claim.at, claim.vms, printable(claim.vm[:LONGEST]), printable(claim.host[:LONGEST])])


def decode(text: str) -> Claim | None:
    """The claim that ``text`` holds; None where it holds none."""
    try:
        at, vms, vm, host = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return None
    sound = isinstance(at, float) and math.isfinite(at) and type(vms) is int and type(vm) is type(host) is str
    return Claim(at, vms, vm, host) if sound else None


def fresh(told: Mapping[str, str], now: float) -> dict[int, Claim]:
    """The claims in ``told`` that hold at ``now`` (seconds since 1970), by the id of the host that claims."""
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
