"""Conflicts: hosts that claim VMs of others, as shown to users (pure)."""

from __future__ import annotations

from typing import NamedTuple

from filters.decisions.picture import Picture


class Claims(NamedTuple):
    """One host that claims ``vms`` VMs that run elsewhere: ids of it, of one of the VMs and of the host that has that
    one, whose name is ``host_name``."""

    claimant: str
    vms: int
    vm: str
    host: str
    host_name: str


def by_claimant(picture: Picture) -> dict[str, Claims]:
    """Claims of each host, by its id: a host may claim any number, so they are reported together."""
    names = {host.id: host.name for host in picture.hosts} if picture.conflicts else {}
    found: dict[str, Claims] = {}
    for each in sorted(picture.conflicts):
        known = found.get(each.claimant) or Claims(
            each.claimant, 0, each.vm, each.host, names.get(each.host, each.host)
        )
        found[each.claimant] = known._replace(vms=known.vms + 1)
    return found
