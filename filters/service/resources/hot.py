"""``/v1/hot``: hosts in trouble by any rule, and why."""

from __future__ import annotations

from filters.decisions import overload_detection
from filters.decisions.deciding import Decided
from filters.decisions.method import Method, method_of
from filters.decisions.verdict import Outcome
from filters.documents.encoding import encode_long
from filters.documents.verdicts import FIELDS, LISTED, HotDocument, hot_document
from filters.judging.judge import host_owners, judge_otherwise
from filters.service.http.parameters import HOST, LABEL, LIMIT, Parameter
from filters.service.interface.resource import Parts, Request, Resource, fields, hosts_of, verdicts_of
from filters.service.ticks.tick_cache import TickCache

OUTCOME = Parameter(
    "outcome",
    f"verdicts to list (default: {','.join(LISTED)})",
    tuple(Outcome),
)


def declare(parts: Parts) -> tuple[Resource, ...]:
    """The configured rule is applied at every tick, with hysteresis; another one on request, as if no host had been hot
    before. Raises ConfigError for invalid parameters."""
    settings, recents = parts.settings.decisions, parts.recents
    methods = {name: method_of(settings, name) for name in overload_detection.rules()}
    rule = Parameter("rule", f"rule to apply (default: {settings.rule})", tuple(methods), single=True)

    def otherwise(cache: TickCache, method: Method) -> Decided:
        owners = host_owners(cache.snapshot, cache.tables) if method.rule.history else []
        return judge_otherwise(cache.snapshot, settings, method, cache.tables, recents.read(owners))

    def build(cache: TickCache, request: Request) -> bytes:
        made, hosts = verdicts_of(cache), hosts_of(cache, request, parts.labels)
        (name,) = request.chosen("rule", (made.method.rule.name,))
        decided = made if name == made.method.rule.name else otherwise(cache, methods[name])
        outcomes, chosen = request.chosen("outcome", LISTED), request.chosen("fields", FIELDS)
        most = request.number(LIMIT)
        return encode_long(hot_document(decided, outcomes, chosen, hosts, cache.number, most), *Outcome)

    return (
        Resource(
            "/v1/hot",
            "hot",
            "Overloaded hosts, now or by the end of a migration, with reasons",
            HotDocument,
            build,
            parameters=(rule, HOST, LABEL, OUTCOME, LIMIT, fields(FIELDS, "all")),
            prepared=True,
            topic=True,
            early=True,
        ),
    )
