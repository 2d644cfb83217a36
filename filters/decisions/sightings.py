"""Sightings: unreported migrations, and their end, for cool-downs (pure).

While a VM migrates, two hosts report it. When one of them no longer does, the VM has moved, or its migration was
aborted: it has moved if it is not where its oldest process was. Sightings are passed in and returned as a value, like
verdicts and proposals; readers share ends of migrations (``filters.judging.migration_store``).

A host may report any VM, on and off: its report keeps that VM where it is for a minute after the first report, unless
the VM has moved since, or no host has reported it so for as long as migrations may take.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.config.decisions import Policy
from acquisition.snapshot.values.states import CLAIM_SECONDS
from filters.decisions.migrations import Log
from filters.decisions.picture import Host, Picture


class Sighting(NamedTuple):
    """A VM that several hosts have reported: its origin, all those hosts, and the last and first time."""

    origin: str
    hosts: frozenset[str]
    at: float
    began: float


class Sightings(NamedTuple):
    """Migrations under way and recently aborted ones, by VM id, and the time of the last end, by host id."""

    under_way: Mapping[str, Sighting] = {}
    ends: Mapping[str, float] = {}
    aborted: Mapping[str, Sighting] = {}

    def released(self, now: float) -> frozenset[str]:
        """The VMs that their sightings no longer keep from being moved."""
        return frozenset(vm for vm, each in self.under_way.items() if now - each.began > CLAIM_SECONDS)


def follow(before: Sightings, picture: Picture, policy: Policy, now: float) -> Sightings:
    """Sightings after one more picture, at ``now`` by the clock of the log of migrations.

    A VM that none of its hosts reports is kept for as long as migrations may take: a host may be late.
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
    """The log with the last seen end per host, and with released VMs."""
    known = log.migrations.ends
    ends = {host: max(seen.ends.get(host, 0.0), known.get(host, 0.0)) for host in (*known, *seen.ends)}
    return log._replace(migrations=log.migrations._replace(ends=ends, released=seen.released(log.now)))


def _has(host: Host | None, vm: str) -> bool:
    return host is not None and any(each.id == vm for each in host.vms)
