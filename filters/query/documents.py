"""Hot hosts and moves as plain values for JSON: one shape for the query command and the service (pure).

A number that is not there is null. Figures that were measured carry validity and age.
"""

from __future__ import annotations

from typing import Any

import msgspec

from filters.decisions.deciding import Decided
from filters.decisions.heat import by_heat
from filters.decisions.method import Method
from filters.decisions.picture import Host, Vm
from filters.decisions.plan import Move, Refusal
from filters.decisions.verdict import ABSTAINS, HOT, Figure, Verdict


def hot_document(decided: Decided, every: bool = False) -> dict[str, Any]:
    """Hot hosts, the hottest first, and those on which the rule abstains; with ``every`` the others too."""
    hosts = {host.id: host for host in decided.picture.hosts}
    verdicts = decided.heat.verdicts
    abstained = [key for key, verdict in verdicts.items() if verdict.outcome == ABSTAINS]
    return {
        **_head(decided),
        "hosts": len(hosts) + decided.picture.others,
        "hot": [host_document(hosts[key], verdicts[key]) for key in by_heat(decided.heat)],
        "abstained": [host_document(hosts[key], verdicts[key]) for key in abstained],
        **({"not_hot": [host_document(hosts[key], verdicts[key]) for key in _others(decided)]} if every else {}),
    }


def moves_document(decided: Decided) -> dict[str, Any]:
    """Proposals in the order in which they should be carried out, and what was refused and why."""
    plan = decided.plan
    return {
        **_head(decided),
        "selection": decided.method.selection.name,
        "placement": decided.method.placement.name,
        "policy": msgspec.to_builtins(decided.method.policy),
        "blind": decided.blind,
        "hot": [host.name for host in decided.picture.hosts if decided.heat.verdicts[host.id].outcome == HOT],
        "moves": [_move(move) for move in plan.moves] if plan is not None else [],
        "refused": [_refusal(each) for each in plan.refusals] if plan is not None else [],
    }


def host_document(host: Host, verdict: Verdict) -> dict[str, Any]:
    """One host with its verdict."""
    return {
        "host": host.name,
        "id": host.id,
        "state": host.state,
        "age_seconds": _rounded(host.age_seconds),
        "labels": dict(host.labels),
        "outcome": verdict.outcome,
        "reason": verdict.reason,
        "excess": _rounded(verdict.excess),
        "figures": [figure_document(figure) for figure in verdict.figures],
    }


def figure_document(figure: Figure) -> dict[str, Any]:
    """One number of an explanation; only what was measured has validity and age."""
    known: dict[str, Any] = {"name": figure.name, "value": _rounded(figure.value), "unit": figure.unit}
    if figure.validity:
        known |= {
            "validity": figure.validity,
            "age_seconds": _rounded(figure.age_seconds),
            "stale_seconds": _rounded(figure.stale_seconds),
        }
    return known


def _head(decided: Decided) -> dict[str, Any]:
    picture, method = decided.picture, decided.method
    return {
        "tick": picture.tick,
        "now": round(picture.now, 6),
        "errors": list(picture.errors),
        "rule": rule_document(method),
    }


def rule_document(method: Method) -> dict[str, Any]:
    """The rule with its source and the parameters in use."""
    rule = method.rule
    return {
        "name": rule.name,
        "title": rule.title,
        "source": rule.source,
        "parameters": msgspec.to_builtins(method.parameters),
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "vm": _vm(move.vm),
        "source": {"host": move.source.name, "id": move.source.id, "age_seconds": _rounded(move.source.age_seconds)},
        "destination": {
            "host": move.destination.name,
            "id": move.destination.id,
            "age_seconds": _rounded(move.destination.age_seconds),
        },
        "why": {
            "host": {
                "reason": move.why_host.reason,
                "figures": [figure_document(figure) for figure in move.why_host.figures],
            },
            "vm": {
                "reason": move.why_vm.reason,
                "figures": [figure_document(figure) for figure in move.why_vm.figures],
            },
            "destination": {
                "reason": move.why_destination,
                "figures": [figure_document(figure) for figure in move.destination_figures],
            },
        },
    }


def _refusal(refusal: Refusal) -> dict[str, Any]:
    return {
        "host": refusal.host.name,
        "host_id": refusal.host.id,
        "vm": _vm(refusal.vm) if refusal.vm is not None else None,
        "reason": refusal.reason,
    }


def _vm(vm: Vm) -> dict[str, Any]:
    return {"id": vm.id, "name": vm.name, "kind": vm.kind, "age_seconds": _rounded(vm.age_seconds)}


def _others(decided: Decided) -> list[str]:
    return [key for key, verdict in decided.heat.verdicts.items() if verdict.outcome not in (HOT, ABSTAINS)]


def _rounded(value: float | None) -> float | None:
    """The digits that a float32 has."""
    return None if value is None else float(f"{value:.7g}")
