"""Host documents: the list with host figures, and one host with its entities."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from acquisition.model import ticks
from acquisition.model.derived import DERIVED
from acquisition.model.metric import HOST_SET
from acquisition.snapshot import Snapshot
from acquisition.snapshot.values.block import Block
from acquisition.snapshot.values.inputs import InputsTable
from acquisition.snapshot.values.members import Owner
from acquisition.snapshot.values.states import STATES
from filters.decisions import picture
from filters.decisions.picture import Host
from filters.documents.chosen import Chosen, Page, by_host
from filters.documents.entities import EntityDocument, Labels, entities_of
from filters.documents.figures import (
    EXTRA,
    INPUTS,
    NUMBERS,
    READING,
    SMOOTHED,
    ReadingDocument,
    gathered,
    inputs_document,
    readings_of,
    shortened,
)
from filters.documents.sets import CAUSE, SetSummary, summary
from filters.text.quantities import digits

#: Fields of a host that can be requested; id, name and state are always present.
FIELDS = ("id", "name", "state", "reason", "cause", "since", "age_seconds", "labels", "sets", "readings", *READING)


class HostDocument(Struct, frozen=True):
    """One host. ``readings`` are the host's own figures by metric; ``age_seconds`` is that of its oldest
    resource set. A host that is not current has no figures: it is not idle. ``cause`` says in a word why it is unknown
    or down, ``since`` when (seconds since 1970)."""

    id: str
    name: str
    state: str
    reason: str | UnsetType = UNSET
    cause: Annotated[str, Meta(description=CAUSE)] | UnsetType = UNSET
    since: float | UnsetType | None = UNSET
    age_seconds: float | UnsetType | None = UNSET
    labels: dict[str, Any] | UnsetType = UNSET
    sets: list[SetSummary] | UnsetType = UNSET
    readings: dict[str, ReadingDocument] | UnsetType = UNSET
    entities: list[EntityDocument] | UnsetType = UNSET


class HostsDocument(Struct, frozen=True):
    """All hosts that were asked for, by name; ``errors`` say what could not be read or seen: it is then not all.
    ``blind`` says why no host at all can be seen. ``next`` is the name after which the next page begins, null where
    there is none; its tick may be a later one."""

    tick: int
    now: float
    reading: str
    errors: list[str]
    blind: str
    next: str | None
    hosts: list[HostDocument]


class HostAnswer(Struct, frozen=True):
    """One host with its entities."""

    tick: int
    now: float
    reading: str
    errors: list[str]
    blind: str
    host: HostDocument


class HostsView(NamedTuple):
    """Inputs of host documents: a snapshot, the decision inputs of its blocks, and the hosts of its picture by id,
    with the derived readings used by rules. ``labels``: those of the entities on them."""

    snapshot: Snapshot
    tick: int
    tables: Mapping[Owner, InputsTable]
    pictured: Mapping[str, Host]
    labels: Labels


def hosts_document(
    view: HostsView, selection: Chosen, states: Collection[str], fields: Collection[str], page: Page
) -> HostsDocument:
    """Selected hosts of a page that are in one of ``states`` (all, if empty)."""
    snapshot = view.snapshot
    taken = (
        (blocks, state)
        for blocks in by_host(snapshot.blocks)
        if selection.takes_host(blocks[0].host, blocks[0].host_id)
        and ((state := state_of(blocks)) in states or not states)
    )
    hosts, following = page.cut(taken, lambda host: host[0][0].host)
    found = [host_document(view, blocks, state, selection, fields) for blocks, state in hosts]
    head = (view.tick, round(snapshot.now, 6), snapshot.reading, list(snapshot.errors), snapshot.blind)
    return HostsDocument(*head, following, found)


def host_answer(view: HostsView, key: str, selection: Chosen, fields: Collection[str]) -> HostAnswer:
    """One host by name or hexadecimal id. Raises KeyError if it is not in the snapshot."""
    snapshot = view.snapshot
    for blocks in by_host(snapshot.blocks):
        if key in (blocks[0].host, f"{blocks[0].host_id:016x}"):
            plain = host_document(view, blocks, state_of(blocks), selection, fields)
            host = structs.replace(plain, entities=_entities(view, blocks, selection, fields))
            head = (view.tick, round(snapshot.now, 6), snapshot.reading, list(snapshot.errors), snapshot.blind)
            return HostAnswer(*head, host)
    raise KeyError(key)


def _entities(
    view: HostsView, blocks: Sequence[Block], selection: Chosen, fields: Collection[str]
) -> list[EntityDocument]:
    figures = _figures(fields)
    return [
        entity
        for block in blocks
        if block.resource_set != HOST_SET and selection.takes_set(block.resource_set, block.set_id)
        for entity in entities_of(
            view.snapshot, block, selection, figures, view.tables.get((block.host_id, block.set_id)), view.labels
        )
    ]


def state_of(blocks: Sequence[Block]) -> str:
    """The state of a host: the worst of its resource sets."""
    return max((block.state for block in blocks), key=STATES.index)


def host_document(
    view: HostsView, blocks: Sequence[Block], state: str, selection: Chosen, fields: Collection[str]
) -> HostDocument:
    """Document of one host with the named ``fields``."""
    first = blocks[0]
    own = next((block for block in blocks if block.resource_set == HOST_SET), None)
    figures = _figures(fields)
    identity = f"{first.host_id:016x}"
    pictured = view.pictured.get(identity)
    worst = next((block for block in blocks if block.cause), None)
    reasons = dict.fromkeys(f"{block.resource_set}: {block.reason}" for block in blocks if block.reason)
    return HostDocument(
        identity,
        first.host,
        state,
        "; ".join(reasons) if "reason" in fields else UNSET,
        (worst.cause if worst else "") if "cause" in fields else UNSET,
        ((worst.since if worst else 0.0) or None) if "since" in fields else UNSET,
        shortened(max(block.age_seconds for block in blocks)) if "age_seconds" in fields else UNSET,
        (dict(pictured.labels) if pictured is not None else {}) if "labels" in fields else UNSET,
        [summary(block) for block in blocks] if "sets" in fields else UNSET,
        _own_readings(view, own, pictured, selection, figures) if figures else UNSET,
    )


def _figures(fields: Collection[str]) -> Collection[str]:
    """Figures of each reading; all of them if readings are requested and none is named."""
    return set(fields) & set(READING) or (READING if "readings" in fields else ())


def _own_readings(
    view: HostsView, own: Block | None, pictured: Host | None, selection: Chosen, figures: Collection[str]
) -> dict[str, ReadingDocument]:
    """Metrics of the host's own table, and the derived ones."""
    if own is None or not own.shape[0]:
        return {}
    columns = [column for column, metric in enumerate(own.metrics) if selection.takes_metric(metric.name)]
    readings = readings_of(own, [0], columns, figures, view.tables.get((own.host_id, own.set_id)))[0]
    for metric in DERIVED:
        found = pictured.readings.get(metric) if pictured is not None else None
        if found is not None and selection.takes_metric(metric):
            readings[metric] = _derived(found, figures)
    return readings


def _derived(found: picture.Reading, figures: Collection[str]) -> ReadingDocument:
    return ReadingDocument(**gathered({name: _figure_of(found, name) for name in figures}))


def _figure_of(found: picture.Reading, name: str) -> Any:
    if name == INPUTS:
        return inputs_document(found.inputs)
    if name in EXTRA:
        return None if _is_old(found) else digits(found.extra.get(name))
    if name not in NUMBERS:
        return getattr(found, name)
    return None if name in SMOOTHED and _is_old(found) else digits(getattr(found, name))


def _is_old(found: picture.Reading) -> bool:
    return found.stale_seconds is not None and found.stale_seconds > ticks.stale_after(found.interval)
