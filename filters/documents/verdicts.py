"""Hot hosts and moves: the documents of ``filters.query.documents``, narrowed to what was asked for.

The types describe those documents for the interface description.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from acquisition.snapshot.selection import Selection
from filters.decisions.plan import Plan
from filters.judging.label_selection import LabelSelection

_ALWAYS = ("host", "id", "outcome")
#: What may be asked for of a host; host, id and outcome always stand there.
FIELDS = (*_ALWAYS, "state", "age_seconds", "labels", "reason", "excess", "figures")
OUTCOMES = ("hot", "abstained", "not_hot")
PROPOSALS = ("moves", "refused")


class FigureDocument(Struct, frozen=True):
    """One number of an explanation; only what was measured has validity and age."""

    name: str
    value: float | None
    unit: str
    validity: str | UnsetType = UNSET
    age_seconds: float | UnsetType | None = UNSET
    stale_seconds: float | UnsetType | None = UNSET


class RuleDocument(Struct, frozen=True):
    """A rule, where its formula comes from, and the parameters in use."""

    name: str
    title: str
    source: str
    parameters: dict[str, Any]


class VerdictDocument(Struct, frozen=True):
    """One host and what the rule says of it. ``excess`` is by how much the deciding figure is above its limit."""

    host: str
    id: str
    outcome: str
    state: str | UnsetType = UNSET
    age_seconds: float | UnsetType | None = UNSET
    labels: dict[str, Any] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    excess: float | UnsetType | None = UNSET
    figures: list[FigureDocument] | UnsetType = UNSET


class HotDocument(Struct, frozen=True):
    """Hot hosts, the hottest first; those on which the rule abstains, because an input is missing or warming."""

    tick: int
    now: float
    errors: list[str]
    rule: RuleDocument
    hosts: int
    hot: list[VerdictDocument] | UnsetType = UNSET
    abstained: list[VerdictDocument] | UnsetType = UNSET
    not_hot: list[VerdictDocument] | UnsetType = UNSET


class Explanation(Struct, frozen=True):
    """A reason in words, with its figures."""

    reason: str
    figures: list[FigureDocument]


class Why(Struct, frozen=True):
    """Why this host is relieved, why of this VM, and why it goes there."""

    host: Explanation
    vm: Explanation
    destination: Explanation


class Place(Struct, frozen=True):
    """A host of a proposal."""

    host: str
    id: str
    age_seconds: float | None


class VmDocument(Struct, frozen=True):
    """A VM of a proposal; ``id`` survives its migration."""

    id: str
    name: str
    kind: str
    age_seconds: float | None


class MoveDocument(Struct, frozen=True):
    """One proposal."""

    vm: VmDocument
    source: Place
    destination: Place
    why: Why


class RefusalDocument(Struct, frozen=True):
    """What was considered and not proposed: a host (``vm`` null) or a VM of it."""

    host: str
    host_id: str
    vm: VmDocument | None
    reason: str


class MovesDocument(Struct, frozen=True):
    """Proposals in the order in which they should be carried out. ``blind`` says why there can be none: the log
    of migrations could not be read."""

    tick: int
    now: float
    errors: list[str]
    rule: RuleDocument
    selection: str
    placement: str
    policy: dict[str, Any]
    blind: str
    hot: list[str]
    moves: list[MoveDocument] | UnsetType = UNSET
    refused: list[RefusalDocument] | UnsetType = UNSET


class Hosts(NamedTuple):
    """Which hosts a list of decisions is about."""

    patterns: Selection
    labels: LabelSelection

    def takes(self, name: str, identity: str, labels: Mapping[str, str]) -> bool:
        """Whether a host is wanted; ``identity`` in hexadecimal digits."""
        named = self.patterns.hosts is None or self.patterns.takes_block(name, int(identity, 16), "", 0)
        return named and self.labels.takes(labels)


def narrowed_hot(
    document: Mapping[str, Any], tick: int, hosts: Hosts, outcomes: Collection[str], fields: Collection[str]
) -> dict[str, Any]:
    """The lists of ``outcomes``, of the selected hosts, with ``fields`` of each."""
    kept = {key: value for key, value in document.items() if key not in OUTCOMES} | {"tick": tick}
    whole = set(FIELDS) <= set(fields)
    for name in OUTCOMES:
        if name in outcomes:
            rows = [row for row in document.get(name, ()) if hosts.takes(row["host"], row["id"], row["labels"])]
            kept[name] = rows if whole else [_narrowed(row, fields) for row in rows]
    return kept


def narrowed_moves(document: Mapping[str, Any], tick: int, parts: Collection[str], most: int) -> dict[str, Any]:
    """The first ``most`` of each of ``parts``."""
    kept = {key: value for key, value in document.items() if key not in PROPOSALS} | {"tick": tick}
    return kept | {name: document[name][:most] for name in PROPOSALS if name in parts}


def narrowed_plan(plan: Plan, sources: Hosts, vms: LabelSelection) -> Plan:
    """The proposals and refusals that concern a host of ``sources`` and a VM with such labels. A refusal of a host as a
    whole concerns any of its VMs."""
    return Plan(
        tuple(
            move
            for move in plan.moves
            if sources.takes(move.source.name, move.source.id, move.source.labels) and vms.takes(move.vm.labels)
        ),
        tuple(
            each
            for each in plan.refusals
            if sources.takes(each.host.name, each.host.id, each.host.labels)
            and (each.vm is None or vms.takes(each.vm.labels))
        ),
    )


def _narrowed(row: Mapping[str, Any], fields: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in row.items() if key in _ALWAYS or key in fields}
