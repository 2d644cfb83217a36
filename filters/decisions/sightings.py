"""Sightings: unreported migrations, and their end, for cool-downs (pure).

While a VM migrates, two hosts report it. When one of them no longer does, the VM has moved, or its migration was
aborted: it has moved if it is elsewhere than its oldest process was. What was seen goes in and comes out as a value, as
verdicts and proposals do; readers inform each other of ends (``filters.judging.migration_store``).

A host may report any VM, on and off: what it says keeps that VM where it is for a minute, counted from when it first
said so, unless the VM has moved since, or nobody has said so for as long as migrations may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.config.decisions import Policy
from acquisition.snapshot.values.states import CLAIM_SECONDS
from filters.decisions.migrations import Log
from filters.decisions.picture import Host, Picture


class Sighting(NamedTuple):
    """A VM that several hosts have reported: where it came from, all those hosts, when it was last so, and first."""

    origin: str
    hosts: frozenset[str]
    at: float
    began: float


class Sightings(NamedTuple):
    """Migrations under way by VM id, those that came to nothing lately, and when the last that ended did, by host
    id."""

    under_way: Mapping[str, Sighting] = {}
    ends: Mapping[str, float] = {}
    aborted: Mapping[str, Sighting] = {}

    def released(self, now: float) -> frozenset[str]:
        """The VMs that what was seen of them does not keep from being moved any more."""
        return frozenset(vm for vm, each in self.under_way.items() if now - each.began > CLAIM_SECONDS)


def follow(before: Sightings, picture: Picture, policy: Policy, now: float) -> Sightings:
    """Sightings after one more picture, at ``now`` of the clock of the log of migrations.

    A VM that none of its hosts reports is waited for as long as migrations may take: a host may be late.
    """
    seen: dict[str, Sighting] = {}
    aborted = {vm: each for vm, each in before.aborted.items() if now - each.at < policy.migration_seconds}
    for each in picture.transits:
        known = seen.get(each.vm) or before.under_way.get(each.vm) or aborted.pop(each.vm, None)
        known = known or Sighting(each.origin, frozenset(), now, now)
        seen[each.vm] = known._replace(hosts=known.hosts | {each.source, each.destination}, at=now)
    ends = {host: at for host, at in before.ends.items() if now - at < policy.settle_seconds}
    over = {vm: known for vm, known in before.under_way.items() if vm not in seen}
    hosts = {host.id: host for host in picture.hosts} if over else {}
    for vm, known in over.items():
        place = next((host for host in known.hosts if _has(hosts.get(host), vm)), None)
        if place is None and now - known.at < policy.migration_seconds:
            seen[vm] = known
        elif place == known.origin:
            aborted[vm] = known
        elif place is not None:
            ends.update(dict.fromkeys((known.origin, place), now))
    return Sightings(seen, ends, aborted)


def joined(log: Log, seen: Sightings) -> Log:
    """The log with the ends that were seen, of which the last of each host counts, and with what binds no more."""
    known = log.migrations.ends
    ends = {host: max(seen.ends.get(host, 0.0), known.get(host, 0.0)) for host in (*known, *seen.ends)}
    return log._replace(migrations=log.migrations._replace(ends=ends, released=seen.released(log.now)))


def _has(host: Host | None, vm: str) -> bool:
    return host is not None and any(each.id == vm for each in host.vms)
