"""Place documents: hosts for a new VM, for ``query place`` and ``/v1/place``."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from acquisition.config.decisions import Policy
from filters.decisions.deciding import Decided
from filters.decisions.place import Wanted, place
from filters.decisions.refusal import Refusal
from filters.documents.verdicts import Hosts, ReasonFigure, RuleDocument, figures_of, head_of
from filters.text.quantities import digits


class NewVm(Struct, frozen=True):
    """The VM that is to be started, with what it is expected to use."""

    vcpus: int
    memory_bytes: float
    cpu_cores: float
    network_bytes_per_second: float | None
    labels: dict[str, str]


class PlaceDocument(Struct, frozen=True):
    """A host that takes the VM; figures are without and with it."""

    host: str
    id: str
    age_seconds: float | None
    reason: str
    figures: list[ReasonFigure]


class RefusedPlace(Struct, frozen=True):
    """A host that does not take the VM."""

    host: str
    id: str
    reason: str


class PlacesDocument(Struct, frozen=True):
    """Hosts for a new VM, the best first, counting migrations in progress and proposed moves as done. ``blind`` says
    why there is no answer: no host can be judged, or the log of migrations could not be read; both lists are null
    then."""

    tick: Annotated[int | None, Meta(description="null while no host is current")]
    now: Annotated[float, Meta(description="seconds since 1970 by the reader's clock")]
    errors: Annotated[list[str], Meta(description="shards that could not be read: the list of hosts is incomplete")]
    rule: RuleDocument
    placement: str
    policy: Policy
    blind: str
    vm: NewVm
    remedy: Annotated[str, Meta(description="where no host takes the VM, what the nearest one lacks or forbids")]
    places: list[PlaceDocument] | None
    refused: list[RefusedPlace] | None


def places_document(
    decided: Decided, wanted: Wanted, hosts: Hosts | None = None, most: int | None = None, tick: int | None = None
) -> PlacesDocument:
    """The first ``most`` (None: all) of the chosen ``hosts`` (None: all) that accept a new VM, and of those that
    refuse it."""
    method, plan = decided.method, decided.plan
    placed = place(wanted, plan.state, method.placement, (hosts or Hosts()).takes) if plan is not None else None
    cores = wanted.cores(method.policy)
    return PlacesDocument(
        *head_of(decided, tick),
        method.placement.name,
        method.policy,
        decided.unplanned,
        NewVm(wanted.vcpus, wanted.memory, cores, wanted.network, dict(wanted.labels)),
        placed.remedy if placed is not None else "",
        [
            PlaceDocument(one.host.name, one.host.id, digits(one.host.age_seconds), one.reason, figures_of(one.figures))
            for one in placed.places[:most]
        ]
        if placed is not None
        else None,
        [_refused(one) for one in placed.refusals[:most]] if placed is not None else None,
    )


def _refused(refusal: Refusal) -> RefusedPlace:
    return RefusedPlace(refusal.host.name, refusal.host.id, refusal.reason)
