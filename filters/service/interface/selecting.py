"""What every resource checks: names and labels that the tick does not hold, and answers that would be too large."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from acquisition.model.derived import DERIVED
from acquisition.model.metric import HOST_SET
from filters.decisions.deciding import Decided
from filters.documents.chosen import Chosen
from filters.documents.verdicts import Hosts
from filters.judging.labels import Labels, LabelSelection, Selector
from filters.service.http.parameters import ENTITY_LABEL, LABEL, TOP, Parameter
from filters.service.http.problem import Problem, not_found
from filters.service.interface.resource import Request
from filters.service.ticks.tick_cache import TickCache

_SHOWN = 8


def bounded(samples: int, most: int) -> None:
    """Raises Problem (422) for an answer of more samples than are allowed."""
    if samples > most:
        detail = f"the answer would hold {samples} samples, {most} are allowed ([serve.limits] answer_samples)"
        raise Problem(
            422,
            "answer-too-large",
            f"{detail}: select with host, set, entity, metric or state, or take pages (limit, after)",
        )


def require(cache: TickCache, request: Request) -> None:
    """Every pattern of hosts, sets and metrics must match something that is there. Raises Problem (404)."""
    blocks = cache.snapshot.blocks
    values = request.values
    if "host" in values:
        _match("host", values["host"], (name for b in blocks for name in (b.host, f"{b.host_id:016x}")))
    if "set" in values:
        _match("set", values["set"], (name for b in blocks for name in (b.resource_set, f"{b.set_id:08x}")))
    if "metric" in values:
        _match("metric", values["metric"], _metrics(cache))


def selected(cache: TickCache, request: Request, labels: Labels) -> Chosen:
    """What is asked for, after a check that every pattern and label selector fits something. Raises Problem (404)."""
    require(cache, request)
    hosts, wanted, of_entities = None, request.host_labels, request.entity_labels
    if wanted:
        known = labels.of_hosts(cache.snapshot)
        require_labels(LABEL, wanted, known.values())
        hosts = frozenset(number for number, found in known.items() if wanted.takes(found))
    top = int(request.values[TOP.name][0]) if TOP.name in request.values else 0
    if not of_entities:
        return Chosen(request.selection, hosts, top=top)
    require_labels(ENTITY_LABEL, of_entities, entity_labels(cache, labels))
    return Chosen(request.selection, hosts, lambda entity: of_entities.takes(labels.of_entity(entity)), top)


def entity_labels(cache: TickCache, labels: Labels) -> Iterator[Mapping[str, str]]:
    """The labels of all processes and VMs."""
    return (
        labels.of_entity(entity)
        for block in cache.snapshot.blocks
        if block.resource_set != HOST_SET
        for entity in block.entities
    )


def require_labels(parameter: Parameter, wanted: LabelSelection, known: Iterable[Mapping[str, str]]) -> None:
    """Raises Problem (404) for a selector that nothing fulfils: an empty answer would look like peace."""
    open_ones = [one for several in wanted.by_name.values() for one in several]
    values: dict[str, dict[str, None]] = {}
    for labels in known:
        open_ones = [one for one in open_ones if not one.takes(labels)]
        if not open_ones:
            return
        for name, value in labels.items():
            values.setdefault(name, {})[value] = None
    raise not_found(_unknown_label(open_ones[0], values), parameter.name)


def _unknown_label(selector: Selector, values: Mapping[str, Mapping[str, None]]) -> str:
    if selector.name not in values:
        return f"nothing has a label {selector.name!r}{hint(selector.name, list(values))}"
    shown = ", ".join(repr(value) for value in sorted(values[selector.name])[:_SHOWN])
    return f"no label {selector.name!r} has such a value; some that there are: {shown}"


def _metrics(cache: TickCache) -> Iterable[str]:
    """The names of all metrics; hosts share few schemas."""
    schemas = {block.schema: block for block in cache.snapshot.blocks}
    return [*(metric.name for block in schemas.values() for metric in block.metrics), *DERIVED]


def _match(what: str, patterns: Iterable[str], names: Iterable[str]) -> None:
    known = dict.fromkeys(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise not_found(f"no {what} matches {pattern!r}{hint(pattern, list(known))}", what)


def hint(word: str, known: Sequence[str]) -> str:
    """What was meant, perhaps; empty where nothing known is near."""
    near = get_close_matches(word, list(dict.fromkeys(known))[:2000], 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def hosts_of(cache: TickCache, request: Request, labels: Labels) -> Hosts:
    """The hosts that a list of decisions is asked for. Raises Problem (404)."""
    require(cache, request)
    if request.host_labels:
        require_labels(LABEL, request.host_labels, labels.of_hosts(cache.snapshot).values())
    return Hosts(request.selection, request.host_labels)


def decided_of(cache: TickCache) -> Decided:
    """What was decided about the tick. Raises Problem (503)."""
    return _there(cache.decided)


def verdicts_of(cache: TickCache) -> Decided:
    """The same with the verdicts that have changed since, without moves. Raises Problem (503)."""
    return _there(cache.verdicts)


def _there(decided: Decided | None) -> Decided:
    if decided is None:
        raise Problem(503, "no-decisions", "nothing was decided about this picture", {b"retry-after": b"1"})
    return decided
