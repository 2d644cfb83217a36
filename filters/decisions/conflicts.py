"""Conflicts: hosts that claim VMs of others, as shown to users (pure)."""

from __future__ import annotations

from typing import NamedTuple

from filters.decisions.picture import Picture


class Claims(NamedTuple):
    """Claims of one host to ``vms`` VMs that run elsewhere: ids of the claimant, of one of the VMs and of the host that
    has this VM, with its name."""

    claimant: str
    vms: int
    vm: str
    host: str
    host_name: str


def by_claimant(picture: Picture) -> dict[str, Claims]:
    """Claims by id of the claimant: a host may claim any number of VMs, so they are reported together."""
    names = {host.id: host.name for host in picture.hosts} if picture.conflicts else {}
    found: dict[str, Claims] = {}
    for each in sorted(picture.conflicts):
        known = found.get(each.claimant) or Claims(
            each.claimant, 0, each.vm, each.host, names.get(each.host, each.host)
        )
        found[each.claimant] = known._replace(vms=known.vms + 1)
    return found
