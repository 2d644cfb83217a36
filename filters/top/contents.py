"""Contents: one reading as listings with histories, folded over readings (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from acquisition.model.metric import HOST_SET
from acquisition.shards.servers.status import ShardStatus
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.recent import RecentTable
from acquisition.status.health import Health
from acquisition.terminal import printable
from filters.top.columns import OF_VMS
from filters.top.listings import entities, history
from filters.top.listings.history import History, history_of_block, history_of_hosts
from filters.top.listings.hosts import list_hosts
from filters.top.listings.listing import HOSTS, Listing
from filters.top.view import Level, View, level_of_set


class Observation(NamedTuple):
    """One reading of the shards. ``error``: reason a newer one failed; ``health`` is read only when shown;
    ``recent``: values kept by the filter for resource sets just opened; ``outcomes``: results of the rule by
    host, if hosts are few."""

    snapshot: Snapshot
    shards: tuple[ShardStatus, ...] = ()
    health: Health | None = None
    error: str = ""
    recent: Mapping[Owner, RecentTable] = {}
    outcomes: Mapping[int, str] = {}


_NOTED = ("hot", "suspect", "saturated")
_OF_VMS = tuple(column.name for column in OF_VMS)
Place = tuple[int, str, int | None]  #: host, resource set, entity


class Opened(NamedTuple):
    """A listing below a host; None until it has been read."""

    listing: Listing | None
    history: History
    title: str


class Contents(NamedTuple):
    """All hosts, and the part opened below one of them: ``below`` keeps its history while the
    host is open. ``sets``: its resource sets, () while unknown."""

    observation: Observation
    hosts: Listing
    hosts_history: History
    below: Mapping[Place, Opened] = {}
    sets: tuple[str, ...] = ()
    lost: int | None = None  #: samples, of all readable hosts; None while unknown


def develop(before: Contents | None, observation: Observation, view: View) -> Contents:
    """The contents after a newer observation."""
    hosts = _judged(list_hosts(observation.snapshot), observation.outcomes)
    if before is not None:
        past = before.hosts_history
    else:
        past = history_of_hosts(hosts, observation.snapshot, observation.recent)
    known = before.below if before is not None else {}
    contents = Contents(observation, hosts, history.advance(past, hosts), lost=_lost(observation.snapshot))
    host = view.host
    places = dict.fromkeys([place for place in known if place[0] == host] + [place_of(level) for level in view.path])
    below = {place: _opened(observation, place, known.get(place)) for place in places if place[0]}
    return contents._replace(below=below, sets=_sets(contents, host))


def _judged(hosts: Listing, outcomes: Mapping[int, str]) -> Listing:
    """The hosts with a note on hot, suspect and saturated ones."""
    found = [outcomes.get(host, "") for host in hosts.ids.tolist()]
    return hosts._replace(notes=[outcome if outcome in _NOTED else "" for outcome in found])


def enter(contents: Contents, view: View) -> Contents:
    """The same contents with the level of ``view`` opened."""
    place = place_of(view.level)
    if not place[0] or place in contents.below:
        return contents
    opened = _opened(contents.observation, place, None)
    below = {known: value for known, value in contents.below.items() if known[0] == place[0]}
    return contents._replace(below={**below, place: opened}, sets=_sets(contents, place[0]))


def settled(view: View, contents: Contents) -> View:
    """The view with defaults for choices that depend on a host's contents: its VMs, else processes, else metrics."""
    level = view.level
    if not level.host or level.resource_set or not contents.sets:
        return view
    return view._replace(path=(*view.path[:-1], level_of_set(level, contents.sets[0])))


def shown(contents: Contents, level: Level) -> tuple[Listing | None, History]:
    """The listing of a level with its history."""
    if level.kind == HOSTS:
        return contents.hosts, contents.hosts_history
    opened = contents.below.get(place_of(level))
    return (opened.listing, opened.history) if opened is not None else (None, history.empty())


def place_of(level: Level) -> Place:
    """Place of a level; host 0 means no host."""
    return level.host, level.resource_set, level.entity


def _lost(snapshot: Snapshot) -> int | None:
    positions = (block.position for block in (*snapshot.blocks, *snapshot.unread))
    known = [position.lost for position in positions if position is not None]
    return sum(known) if known or not snapshot.errors else None


def _sets(contents: Contents, host: int) -> tuple[str, ...]:
    return tuple(entities.sets_of(contents.observation.snapshot, host)) if host else ()


def _opened(observation: Observation, place: Place, before: Opened | None) -> Opened:
    host, resource_set, entity = place
    snapshot = observation.snapshot
    block = entities.block_of(snapshot, host, resource_set)
    past = before.history if before is not None else history.empty()
    title = _title(snapshot, place, block)
    if block is None:
        return Opened(None, past, title)
    metrics = resource_set == HOST_SET or entity is not None
    if metrics:
        listing = entities.list_metrics(block, snapshot.now, entity)
    else:
        listing = entities.list_entities(block, snapshot.now, _OF_VMS, snapshot.placements)
    past = history_of_block(listing, block, entity, observation.recent, past)
    return Opened(listing, history.advance(past, listing), title)


def _title(snapshot: Snapshot, place: Place, block: Block | None) -> str:
    host, resource_set, entity = place
    names = (each.host for each in (*snapshot.blocks, *snapshot.unread) if each.host_id == host)
    parts = [printable(next(names, f"{host:016x}")), printable(resource_set)]
    if entity is not None:
        parts.append(entities.entity_name(block, entity))
    return " · ".join(part for part in parts if part)
