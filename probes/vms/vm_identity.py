"""VM identity: an id that follows a VM between hosts, and its labels (pure).

The id is the uuid; if there is none, or it does not distinguish VMs, the owner's own key within ``[probe.vms]
scope`` (``kubevirt:SCOPE/NAMESPACE/NAME``, ``pve:SCOPE/VMID``). A VM with neither, and one with the id of an older
process of this host under another name (a copy), has only a local id: HOST:NAME, with the label ``local``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from probes.sampling.host_facts import HostFacts
from probes.vms.guest_process import Found, Process
from probes.vms.qemu import Guest

_NONE: Mapping[Process, str] = {}
_NOBODY: Mapping[int, float] = {}
LOCAL = "local"  #: label of a VM whose id is unknown to all other hosts


class Identity(NamedTuple):
    """``stable`` id and its labels."""

    stable: str
    labels: dict[str, str]


def identities(
    facts: HostFacts,
    found: Iterable[Found],
    arrived: Mapping[int, float] = _NOBODY,
    before: Mapping[Process, str] = _NONE,
) -> dict[int, Identity]:
    """Identities of all VMs of a host, by pid. ``arrived``: when those started to receive a guest first ran
    it, seconds after the boot of the host. A VM that had a stable id ``before`` keeps it for as long as its process
    lives, whichever others come and go."""
    names: dict[str, str] = {}  # of those that have an id
    made = {}
    for each in sorted(found, key=lambda each: ((each.pid, each.start) not in before, each.start, each.pid)):
        guest = each.guest
        if guest is None:
            continue
        stable = wide = _wide(guest, facts.scope)
        known = before.get((each.pid, each.start))
        if known is not None:
            stable = known
        elif not wide or names.get(wide, guest.name) != guest.name:
            stable = f"{facts.name}:{guest.name or each.pid}"
            if stable in names:
                stable = f"{stable}:{each.pid}"
        names.setdefault(stable, guest.name)
        made[each.pid] = Identity(stable, _labels(facts, each, guest, stable != wide, arrived.get(each.pid)))
    return made


def _wide(guest: Guest, scope: str) -> str:
    """The id valid on every host, "" without one."""
    key = guest.owner.key
    if key is not None and (guest.owner.instead or not guest.uuid):
        return f"{key[0]}:{scope}/{key[1]}"
    return guest.uuid


def _labels(facts: HostFacts, found: Found, guest: Guest, local: bool, arrived: float | None) -> dict[str, str]:
    """``started`` (seconds after the boot of the host) shows where a VM is while two hosts report it, and so do
    ``accelerator`` and ``incoming`` (it was started to receive a guest, which has not run yet) if they are known.
    ``received``: when such a guest first ran here, as ``started``."""
    labels = {"pid": str(found.pid), "host": facts.name, "started": f"{found.start / facts.hertz:.2f}"}
    if guest.uuid:
        labels["uuid"] = guest.uuid
    if guest.accelerator:
        labels["accelerator"] = guest.accelerator
    if guest.incoming:
        labels |= {"incoming": "yes"} if arrived is None else {"received": f"{arrived:.2f}"}
    if local:
        labels[LOCAL] = "yes"
    return {**labels, **dict(guest.owner.labels)}
