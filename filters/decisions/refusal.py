"""Refusal: an option considered and not proposed, with the reason."""

from __future__ import annotations

from typing import NamedTuple

from filters.decisions.picture import Host, Vm


class Refusal(NamedTuple):
    """Option considered and not proposed: a host (``vm`` None) or a VM of it."""

    host: Host
    vm: Vm | None
    reason: str


Refusals = dict[tuple[str, str], Refusal]  #: by host id and VM id ("" for the host itself)
