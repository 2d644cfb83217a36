"""Verdict documents: hot hosts and moves, for ``query`` and the service.

Printed by ``shardpulse query hot`` and ``moves`` with ``--json``, and returned by ``/v1/hot`` and
``/v1/moves``. Absent numbers are null; measured figures have validity
and age.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from acquisition.config.decisions import Policy
from acquisition.snapshot.values.rows import Selection
from filters.decisions.constraints.vms import is_evacuated
from filters.decisions.deciding import Decided
from filters.decisions.picture import Host, Vm
from filters.decisions.plan import Move, Proposals
from filters.decisions.refusal import Refusal
from filters.decisions.verdict import Figure, Outcome, Verdict
from filters.documents.sets import CAUSE
from filters.judging.labels import LabelSelection
from filters.text.quantities import digits

#: Lists of ``HotDocument`` included unless others are requested.
LISTED = (Outcome.HOT, Outcome.SUSPECT, Outcome.SATURATED, Outcome.ABSTAINED)
#: Lists of ``MovesDocument``.
PROPOSALS = ("moves", "refused")


class ReasonFigure(Struct, frozen=True):
    """One number of an explanation; only what was measured has validity and age."""

    name: str
    value: float | None
    unit: str
    validity: str | UnsetType = UNSET
    age_seconds: float | UnsetType | None = UNSET
    stale_seconds: Annotated[float, Meta(description="since the last valid value")] | UnsetType | None = UNSET


class RuleDocument(Struct, frozen=True):
    """A rule, where its formula comes from, and the parameters in use."""

    name: str
    title: str
    source: str
    parameters: dict[str, Any]


class PartDocument(Struct, frozen=True):
    """One part of a rule, such as ``memory``, with its own outcome and its reason where that is not the verdict's."""

    name: str
    outcome: Outcome
    reason: str | UnsetType = UNSET


class VerdictDocument(Struct, frozen=True):
    """One host and what the rule says of it. ``excess`` is by how much the deciding figure is above its limit."""

    host: str
    id: str
    outcome: Outcome
    state: str | UnsetType = UNSET
    cause: Annotated[str, Meta(description=CAUSE)] | UnsetType = UNSET
    age_seconds: float | UnsetType | None = UNSET
    labels: dict[str, Any] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    excess: float | UnsetType | None = UNSET
    figures: list[ReasonFigure] | UnsetType = UNSET
    lasting_seconds: (
        Annotated[float, Meta(description="for how long the deciding figure has been beyond its limit, by the samples")]
        | UnsetType
        | None
    ) = UNSET
    parts: list[PartDocument] | UnsetType = UNSET


#: Fields of a host that can be requested; ``host``, ``id`` and ``outcome`` are always present.
FIELDS = VerdictDocument.__struct_fields__
_ALWAYS = ("host", "id", "outcome")


class HotDocument(Struct, frozen=True):
    """Hot hosts, the hottest first; suspect ones, beyond a limit and not confirmed; saturated ones, busy while nobody
    waits; those on which the rule abstained, because an input is missing or warming; the others, if asked for.
    ``hosts`` counts all. ``blind`` says why no host at all can be judged: all lists but ``abstained`` are null then."""

    tick: Annotated[int | None, Meta(description="null while no host is current")]
    now: Annotated[float, Meta(description="seconds since 1970 by the reader's clock")]
    errors: Annotated[list[str], Meta(description="shards that could not be read: the list of hosts is incomplete")]
    blind: str
    rule: RuleDocument
    hosts: int
    hot: list[VerdictDocument] | UnsetType | None = UNSET
    suspect: list[VerdictDocument] | UnsetType | None = UNSET
    saturated: list[VerdictDocument] | UnsetType | None = UNSET
    abstained: list[VerdictDocument] | UnsetType = UNSET
    not_hot: list[VerdictDocument] | UnsetType | None = UNSET


class Explanation(Struct, frozen=True):
    """A reason in words, with its figures."""

    reason: str
    figures: list[ReasonFigure]


class Why(Struct, frozen=True):
    """Why this host is relieved or emptied, why of this VM, why it goes there, and what that costs and frees."""

    host: Explanation
    vm: Explanation
    destination: Explanation
    cost: Explanation


class Place(Struct, frozen=True):
    """A host of a proposal."""

    host: str
    id: str
    age_seconds: float | None


class VmDocument(Struct, frozen=True):
    """A VM of a proposal; ``id`` survives its migration, and ``/v1/entities/{id}`` knows it."""

    id: str
    name: str
    kind: str
    age_seconds: float | None


class MoveDocument(Struct, frozen=True):
    """One proposal."""

    vm: VmDocument
    source: Place
    destination: Place
    cause: Annotated[str, Meta(description="why the source gives VMs: hot, saturated for long, or in maintenance")]
    migration_seconds: Annotated[
        float | None, Meta(description="expected duration, the least where `why.cost` says so; null: unknown")
    ]
    why: Why


class RefusalDocument(Struct, frozen=True):
    """Option considered and not proposed: a host (``vm`` null) or a VM of it."""

    host: str
    host_id: str
    vm: VmDocument | None
    reason: str


class MovesDocument(Struct, frozen=True):
    """Proposals in the order in which they should be carried out. ``hot`` names the hot hosts, null: none can be
    judged. ``blind`` says why there can be no proposals: that, or the log of migrations could not be read; both lists
    are null then."""

    tick: Annotated[int | None, Meta(description="null while no host is current")]
    now: Annotated[float, Meta(description="seconds since 1970 by the reader's clock")]
    errors: Annotated[list[str], Meta(description="shards that could not be read: the list of hosts is incomplete")]
    rule: RuleDocument
    selection: str
    placement: str
    policy: Policy
    blind: str
    hot: list[str] | None
    maintenance: Annotated[
        list[str] | None,
        Meta(description="names of hosts in maintenance, which VMs are to leave; null: no host is seen"),
    ]
    moves: list[MoveDocument] | UnsetType | None = UNSET
    refused: list[RefusalDocument] | UnsetType | None = UNSET


class Hosts(NamedTuple):
    """Selected hosts of a list of decisions: all, unless patterns or labels narrow it."""

    patterns: Selection = Selection()
    labels: LabelSelection = LabelSelection()

    def takes(self, host: Host) -> bool:
        """Whether a host is selected."""
        named = self.patterns.hosts is None or self.patterns.takes_block(host.name, int(host.id, 16), "", 0)
        return named and (not self.labels.by_name or self.labels.takes(host.labels))


def hot_document(
    decided: Decided,
    outcomes: Collection[str] = LISTED,
    fields: Collection[str] = FIELDS,
    hosts: Hosts | None = None,
    tick: int | None = None,
    most: int | None = None,
) -> HotDocument:
    """The lists of ``outcomes``: the first ``most`` (None: all) of the chosen ``hosts`` (None: all), with ``fields`` of
    each. ``tick``: that of the picture, unless the caller numbers ticks differently."""
    known, heat = {host.id: host for host in decided.picture.hosts}, decided.heat
    left_out = {name: UNSET for name in FIELDS if name not in (*_ALWAYS, *fields)}

    def row(key: str) -> VerdictDocument:
        whole = host_document(known[key], heat.verdicts[key])
        return msgspec.structs.replace(whole, **left_out) if left_out else whole

    def rows(outcome: Outcome) -> list[VerdictDocument] | None:
        if decided.blind and outcome is not Outcome.ABSTAINED:
            return None
        keys = [key for key in heat.having(outcome) if hosts is None or hosts.takes(known[key])]
        return [row(key) for key in keys[:most]]

    lists: dict[str, Any] = {each.value: rows(each) for each in Outcome if each in outcomes}
    number, now, errors, rule = head_of(decided, tick)
    return HotDocument(number, now, errors, decided.blind, rule, len(known), **lists)


def moves_document(
    decided: Decided, parts: Collection[str] = PROPOSALS, most: int | None = None, tick: int | None = None
) -> MovesDocument:
    """The first ``most`` (None: all) of each of ``parts``, and the hot hosts; ``tick`` as in ``hot_document``."""
    plan, method, heat = decided.plan, decided.method, decided.heat
    hot = [host.name for host in decided.picture.hosts if heat.verdicts[host.id].outcome is Outcome.HOT]
    moves = None if plan is None else [_move(move) for move in plan.moves[:most]]
    refused = None if plan is None else [_refusal(each) for each in plan.refusals[:most]]
    return MovesDocument(
        *head_of(decided, tick),
        method.selection.name,
        method.placement.name,
        method.policy,
        decided.unplanned,
        None if decided.blind else hot,
        None if decided.picture.blind else [host.name for host in decided.picture.hosts if is_evacuated(host)],
        moves if "moves" in parts else UNSET,
        refused if "refused" in parts else UNSET,
    )


def narrowed(plan: Proposals, sources: Hosts, vms: LabelSelection) -> Proposals:
    """Proposals and refusals for a host of ``sources`` and a VM with matching labels. A refusal of a host as a
    whole applies to any of its VMs."""
    return plan._replace(
        moves=tuple(move for move in plan.moves if sources.takes(move.source) and vms.takes(move.vm.labels)),
        refusals=tuple(
            each
            for each in plan.refusals
            if sources.takes(each.host) and (each.vm is None or vms.takes(each.vm.labels))
        ),
    )


def host_document(host: Host, verdict: Verdict) -> VerdictDocument:
    """One host with its verdict."""
    return VerdictDocument(
        host.name,
        host.id,
        verdict.outcome,
        host.state,
        host.cause,
        digits(host.age_seconds),
        dict(host.labels),
        verdict.reason,
        digits(verdict.excess),
        figures_of(verdict.figures),
        digits(verdict.lasting),
        [PartDocument(*part[:2], UNSET if part.reason == verdict.reason else part.reason) for part in verdict.parts],
    )


def head_of(decided: Decided, tick: int | None) -> tuple[int | None, float, list[str], RuleDocument]:
    """Tick, time, errors and rule: the beginning of every document of decisions."""
    picture, rule = decided.picture, decided.method.rule
    parameters = msgspec.to_builtins(decided.method.parameters)
    told = RuleDocument(rule.name, rule.title, rule.source, parameters)
    return (picture.tick or None) if tick is None else tick, round(picture.now, 6), list(picture.errors), told


def figures_of(figures: tuple[Figure, ...]) -> list[ReasonFigure]:
    """Figures of an explanation."""
    return [_figure(each) for each in figures]


def _figure(figure: Figure) -> ReasonFigure:
    name, value, unit, validity, age, stale = figure
    if not validity:
        return ReasonFigure(name, digits(value), unit)
    return ReasonFigure(name, digits(value), unit, validity, digits(age), digits(stale))


def _move(move: Move) -> MoveDocument:
    return MoveDocument(
        _vm(move.vm),
        place_of(move.source),
        place_of(move.destination),
        move.cause,
        digits(move.cost.seconds),
        Why(
            Explanation(move.why_host.reason, figures_of(move.why_host.figures)),
            Explanation(move.why_vm.reason, figures_of(move.why_vm.figures)),
            Explanation(move.why_destination, figures_of(move.destination_figures)),
            Explanation(move.cost.reason, figures_of(move.cost.figures)),
        ),
    )


def _refusal(refusal: Refusal) -> RefusalDocument:
    vm = _vm(refusal.vm) if refusal.vm is not None else None
    return RefusalDocument(refusal.host.name, refusal.host.id, vm, refusal.reason)


def place_of(host: Host) -> Place:
    """A host of an answer."""
    return Place(host.name, host.id, digits(host.age_seconds))


def _vm(vm: Vm) -> VmDocument:
    return VmDocument(vm.id, vm.name, vm.kind, digits(vm.age_seconds))
