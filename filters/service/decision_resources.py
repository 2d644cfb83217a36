"""The resources that show decisions: hot hosts by any rule, and the moves that would help."""

from __future__ import annotations

from typing import Any

from acquisition.config.settings import Settings
from filters.decisions import overload_detection
from filters.decisions.deciding import Decided
from filters.decisions.method import Method, method_of
from filters.judging.judge import judge_otherwise
from filters.judging.labels import Labels
from filters.judging.sources import host_owners
from filters.query.documents import hot_document, moves_document
from filters.service.documents import verdicts
from filters.service.documents.encoding import encode, encode_long
from filters.service.edition import Edition
from filters.service.parameters import ENTITY_LABEL, HOST, LABEL, Parameter, number
from filters.service.problem import Problem
from filters.service.recents import Recents
from filters.service.resource import Request, Resource, entity_labels, fields, require, require_labels

_MOST_MOVES = 10_000
LIMIT = Parameter("limit", "at most so many of each list", most=_MOST_MOVES)
OUTCOME = Parameter(
    "outcome", "verdicts to list, separated by commas (default: hot,abstained)", verdicts.OUTCOMES, listed=True
)
PARTS = Parameter("fields", "lists to answer with, separated by commas (default: all)", verdicts.PROPOSALS, listed=True)


def decision_resources(settings: Settings, recents: Recents, labels: Labels) -> tuple[Resource, ...]:
    """Hot hosts and moves. The configured rule is judged at every tick, with hysteresis; another one when
    it is asked for, as if no host had been hot before. Raises ConfigError for parameters that are none."""
    methods = {name: method_of(settings.decisions, name) for name in overload_detection.REGISTRY}
    rule = Parameter("rule", f"the rule to judge by (default: {settings.decisions.rule})", tuple(methods), single=True)

    def otherwise(edition: Edition, method: Method) -> Decided:
        owners = host_owners(edition.snapshot, edition.tables) if method.rule.history else []
        return judge_otherwise(edition.snapshot, settings, method, edition.tables, recents.read(owners))

    def hot(edition: Edition, request: Request) -> bytes:
        made, hosts = _made(edition), _hosts(edition, request, labels)
        (name,) = request.chosen("rule", (made.method.rule.name,))
        decided = made if name == made.method.rule.name else otherwise(edition, methods[name])
        outcomes = request.chosen("outcome", ("hot", "abstained"))
        document = hot_document(decided, every="not_hot" in outcomes)
        chosen = request.chosen("fields", verdicts.FIELDS)
        narrowed = verdicts.narrowed_hot(document, edition.number, hosts, outcomes, chosen)
        return encode_long(narrowed, *verdicts.OUTCOMES)

    def moves(edition: Edition, request: Request) -> bytes:
        made, sources, vms = _made(edition), _hosts(edition, request, labels), request.entity_labels
        if vms:
            require_labels(ENTITY_LABEL, vms, entity_labels(edition, labels))
        if made.plan is not None and request.values:
            made = made._replace(plan=verdicts.narrowed_plan(made.plan, sources, vms))
        document: dict[str, Any] = moves_document(made)
        parts = request.chosen("fields", verdicts.PROPOSALS)
        return encode(verdicts.narrowed_moves(document, edition.number, parts, number(request.values, LIMIT)))

    return (
        Resource(
            "/v1/hot",
            "hot",
            "Hosts that are in trouble, or will be when a migration would end, and why",
            (rule, HOST, LABEL, OUTCOME, fields(verdicts.FIELDS, "all")),
            verdicts.HotDocument,
            hot,
            prepared=True,
            topic=True,
        ),
        Resource(
            "/v1/moves",
            "moves",
            "Which VM to move, where to, and why",
            (HOST, LABEL, ENTITY_LABEL, LIMIT, PARTS),
            verdicts.MovesDocument,
            moves,
            prepared=True,
            topic=True,
        ),
    )


def _hosts(edition: Edition, request: Request, labels: Labels) -> verdicts.Hosts:
    """The hosts that are asked for. Raises Problem (404)."""
    require(edition, request)
    if request.host_labels:
        require_labels(LABEL, request.host_labels, labels.of_hosts(edition.snapshot).values())
    return verdicts.Hosts(request.selection, request.host_labels)


def _made(edition: Edition) -> Decided:
    if edition.decided is None:
        raise Problem(503, "no-decisions", "nothing was decided about this picture", {b"retry-after": b"1"})
    return edition.decided
