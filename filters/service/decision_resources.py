"""The resources that show decisions: hot hosts by any rule, and the moves that would help."""

from __future__ import annotations

from acquisition.config.settings import Settings
from filters.decisions import overload_detection
from filters.decisions.deciding import Decided
from filters.decisions.method import Method, method_of
from filters.decisions.verdict import Outcome
from filters.documents import verdicts
from filters.documents.encoding import encode, encode_long
from filters.judging.judge import judge_otherwise
from filters.judging.labels import Labels
from filters.judging.sources import host_owners
from filters.service.parameters import ENTITY_LABEL, HOST, LABEL, Parameter, number
from filters.service.problem import Problem
from filters.service.recents import Recents
from filters.service.resource import Request, Resource, entity_labels, fields, require, require_labels
from filters.service.tick_cache import TickCache

_MOST_MOVES = 10_000
LIMIT = Parameter("limit", "at most so many of each list", most=_MOST_MOVES)
OUTCOME = Parameter(
    "outcome",
    f"verdicts to list, separated by commas (default: {','.join(verdicts.LISTED)})",
    tuple(Outcome),
    listed=True,
)
PARTS = Parameter("fields", "lists to answer with, separated by commas (default: all)", verdicts.PROPOSALS, listed=True)


def decision_resources(settings: Settings, recents: Recents, labels: Labels) -> tuple[Resource, ...]:
    """Hot hosts and moves. The configured rule is judged at every tick, with hysteresis; another one when
    it is asked for, as if no host had been hot before. Raises ConfigError for parameters that are none."""
    methods = {name: method_of(settings.decisions, name) for name in overload_detection.REGISTRY}
    rule = Parameter("rule", f"the rule to judge by (default: {settings.decisions.rule})", tuple(methods), single=True)

    def otherwise(cache: TickCache, method: Method) -> Decided:
        owners = host_owners(cache.snapshot, cache.tables) if method.rule.history else []
        return judge_otherwise(cache.snapshot, settings.decisions, method, cache.tables, recents.read(owners))

    def hot(cache: TickCache, request: Request) -> bytes:
        made, hosts = _made(cache), _hosts(cache, request, labels)
        (name,) = request.chosen("rule", (made.method.rule.name,))
        decided = made if name == made.method.rule.name else otherwise(cache, methods[name])
        outcomes, chosen = request.chosen("outcome", verdicts.LISTED), request.chosen("fields", verdicts.FIELDS)
        return encode_long(verdicts.hot_document(decided, outcomes, chosen, hosts, cache.number), *Outcome)

    def moves(cache: TickCache, request: Request) -> bytes:
        made, sources, vms = _made(cache), _hosts(cache, request, labels), request.entity_labels
        if vms:
            require_labels(ENTITY_LABEL, vms, entity_labels(cache, labels))
        if made.plan is not None and request.values:
            made = made._replace(plan=verdicts.narrowed(made.plan, sources, vms))
        parts, most = request.chosen("fields", verdicts.PROPOSALS), number(request.values, LIMIT)
        return encode(verdicts.moves_document(made, parts, most, cache.number))

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


def _hosts(cache: TickCache, request: Request, labels: Labels) -> verdicts.Hosts:
    """The hosts that are asked for. Raises Problem (404)."""
    require(cache, request)
    if request.host_labels:
        require_labels(LABEL, request.host_labels, labels.of_hosts(cache.snapshot).values())
    return verdicts.Hosts(request.selection, request.host_labels)


def _made(cache: TickCache) -> Decided:
    if cache.decided is None:
        raise Problem(503, "no-decisions", "nothing was decided about this picture", {b"retry-after": b"1"})
    return cache.decided
