"""Resource: one operation on one path, declared in one value, and its checks.

A new one is one file in ``filters/service/resources`` with a function that declares it, one line in the registry
there, and one test. Routes, interface description, stream topics and documentation follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from acquisition.config.settings import Settings
from acquisition.model.derived import DERIVED
from acquisition.model.metric import HOST_SET
from acquisition.snapshot.values.rows import Selection
from filters.decisions.deciding import Decided
from filters.decisions.method import Method
from filters.documents.chosen import Chosen, Page
from filters.documents.verdicts import Hosts
from filters.judging.labels import Labels, LabelSelection, Selector
from filters.service.http.parameters import AFTER, ENTITY_LABEL, HOSTS, LABEL, TOP, Parameter, Values
from filters.service.http.problem import Problem, not_found
from filters.service.ticks.executor import Executor
from filters.service.ticks.on_demand import Condition, Recents
from filters.service.ticks.stream import Hub
from filters.service.ticks.tick_cache import NewestCache, TickCache

_SHOWN = 8  #: values of a label, in an error

#: Answers a request directly; parameters have been checked. Raises Problem.
Handle = Callable[[Values, Scope, Receive, Send], Awaitable[None]]


class Request(NamedTuple):
    """Request for a tick: parts of the path and checked parameters."""

    path: Mapping[str, str]
    values: Values
    answer_samples: int

    @property
    def selection(self) -> Selection:
        """The patterns of ``host``, ``set``, ``entity`` and ``metric``, compiled."""
        if not self.values:
            return Selection()
        return Selection.of(*(self.values.get(name, ()) for name in ("host", "set", "entity", "metric")))

    @property
    def host_labels(self) -> LabelSelection:
        """The required labels of hosts."""
        chosen = self.values.get(LABEL.name)
        return LabelSelection.of(chosen) if chosen else LabelSelection()

    @property
    def entity_labels(self) -> LabelSelection:
        """The required labels of VMs and processes."""
        chosen = self.values.get(ENTITY_LABEL.name)
        return LabelSelection.of(chosen) if chosen else LabelSelection()

    @property
    def page(self) -> Page:
        """The requested page of hosts."""
        (after,) = self.values.get(AFTER.name, ("",))
        return Page(self.number(HOSTS) if HOSTS.name in self.values else None, after)

    def number(self, parameter: Parameter) -> int:
        """The value of a number, its maximum if absent."""
        given = self.values.get(parameter.name)
        return int(given[0]) if given else parameter.most

    def chosen(self, name: str, default: Sequence[str]) -> tuple[str, ...]:
        """The values of a parameter, the default if absent."""
        return self.values.get(name) or tuple(default)


class Resource(NamedTuple):
    """One operation on one path: its description for clients, and its implementation.

    ``build`` makes the answer from a tick, which is then cached for equal requests; otherwise ``handle`` answers
    directly. ``answer`` is the type of the JSON document, or its schema; ``media``: types of answers other than
    JSON. A ``prepared`` resource is built before any request, a ``topic`` is available in the stream.
    An ``early`` one is rebuilt as soon as a verdict changes, without waiting for the next tick. ``close`` is
    called when the service ends.
    """

    path: str
    name: str
    summary: str
    answer: Any = None
    build: Callable[[TickCache, Request], bytes] | None = None
    handle: Handle | None = None
    parameters: tuple[Parameter, ...] = ()
    in_path: Mapping[str, str] = {}
    prepared: bool = False
    topic: bool = False
    early: bool = False
    method: str = "GET"
    body: Any = None  #: type of the request document
    media: tuple[str, ...] = ()
    headers: tuple[Mapping[str, Any], ...] = ()  #: parameter objects of request headers
    problems: tuple[str, ...] = ()  #: status codes, besides those common to every resource, its parameters and path
    conditional: bool = True  #: whether If-None-Match is evaluated
    close: Callable[[], None] | None = None

    def answer_of(self, request: Request, cache: TickCache) -> bytes:
        """The body made by ``build``."""
        assert self.build is not None
        return self.build(cache, request)


class Parts(NamedTuple):
    """Parts shared by all resources, created with the service.

    ``token``: clients must send one."""

    settings: Settings
    method: Method
    labels: Labels
    newest: NewestCache
    executor: Executor
    condition: Condition
    recents: Recents
    hub: Hub
    token: bool = False


#: Declares the resources of one file.
Declare = Callable[[Parts], Sequence[Resource]]


def fields(choices: tuple[str, ...], default: str) -> Parameter:
    """The parameter that selects the contents of each row: its members, and figures of its samples."""
    return Parameter("fields", f"fields of each row, in addition to its identity (default: {default})", choices)


# -- Checks of every resource: names and labels unknown in the tick, answers that would be too large.


def bounded(samples: int, most: int) -> None:
    """Raise Problem (422) for an answer with more samples than allowed."""
    if samples > most:
        detail = (
            f"the answer would contain {samples} samples, at most {most} are allowed ([serve.limits] answer_samples)"
        )
        raise Problem(
            422,
            "answer-too-large",
            f"{detail}: narrow it with host, set, entity, metric or state, or use pages (limit, after)",
        )


def require(cache: TickCache, request: Request) -> None:
    """Check that every pattern of hosts, sets and metrics matches something. Raises Problem (404)."""
    blocks = cache.snapshot.blocks
    values = request.values
    if "host" in values:
        _match("host", values["host"], (name for b in blocks for name in (b.host, f"{b.host_id:016x}")))
    if "set" in values:
        _match("set", values["set"], (name for b in blocks for name in (b.resource_set, f"{b.set_id:08x}")))
    if "metric" in values:
        _match("metric", values["metric"], _metrics(cache))


def selected(cache: TickCache, request: Request, labels: Labels) -> Chosen:
    """Selection of a request, after checking that every pattern and label selector matches something. Raises Problem
    (404)."""
    require(cache, request)
    hosts, wanted, of_entities = None, request.host_labels, request.entity_labels
    if wanted:
        known = labels.of_hosts(cache.snapshot)
        require_labels(LABEL, wanted, known.values())
        hosts = frozenset(number for number, found in known.items() if wanted.takes(found))
    top = request.number(TOP) if TOP.name in request.values else 0
    if not of_entities:
        return Chosen(request.selection, hosts, top=top)
    require_labels(ENTITY_LABEL, of_entities, entity_labels(cache, labels))
    return Chosen(request.selection, hosts, lambda entity: of_entities.takes(labels.of_entity(entity)), top)


def entity_labels(cache: TickCache, labels: Labels) -> Iterator[Mapping[str, str]]:
    """Labels of all processes and VMs."""
    return (
        labels.of_entity(entity)
        for block in cache.snapshot.blocks
        if block.resource_set != HOST_SET
        for entity in block.entities
    )


def require_labels(parameter: Parameter, wanted: LabelSelection, known: Iterable[Mapping[str, str]]) -> None:
    """Raise Problem (404) for a selector that matches nothing: an empty answer would suggest that all is well."""
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
    return f"no label {selector.name!r} has such a value; values include {shown}"


def _metrics(cache: TickCache) -> Iterable[str]:
    """Names of all metrics; hosts share few schemas."""
    schemas = {block.schema: block for block in cache.snapshot.blocks}
    return [*(metric.name for block in schemas.values() for metric in block.metrics), *DERIVED]


def _match(what: str, patterns: Iterable[str], names: Iterable[str]) -> None:
    known = dict.fromkeys(names)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in known):
            raise not_found(f"no {what} matches {pattern!r}{hint(pattern, list(known))}", what)


def hint(word: str, known: Sequence[str]) -> str:
    """Suggestion of a similar known word; empty if there is none."""
    near = get_close_matches(word, list(dict.fromkeys(known))[:2000], 3)
    return f"; did you mean {' or '.join(near)}?" if near else ""


def hosts_of(cache: TickCache, request: Request, labels: Labels) -> Hosts:
    """Selected hosts of a list of decisions. Raises Problem (404)."""
    if not request.values:
        return Hosts()
    require(cache, request)
    if request.host_labels:
        require_labels(LABEL, request.host_labels, labels.of_hosts(cache.snapshot).values())
    return Hosts(request.selection, request.host_labels)


def decided_of(cache: TickCache) -> Decided:
    """Decision about the tick. Raises Problem (503)."""
    return _there(cache.decided)


def verdicts_of(cache: TickCache) -> Decided:
    """Decision with the verdicts that have changed since the tick, without moves. Raises Problem (503)."""
    return _there(cache.verdicts)


def _there(decided: Decided | None) -> Decided:
    if decided is None:
        raise Problem(503, "no-decisions", "no decision was made for this snapshot", {b"retry-after": b"1"})
    return decided
