"""What a resource is: one operation on one path, declared in one value.

A new one is one file in ``filters/service/resources`` with a function that declares it, one line in the registry
there, and one test. Routes, interface description, stream topics and documentation follow from the declaration.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.types import Receive, Scope, Send

from acquisition.config.settings import Settings
from acquisition.snapshot.values.rows import Selection
from filters.decisions.method import Method
from filters.documents.chosen import Page
from filters.judging.labels import Labels, LabelSelection
from filters.service.http.parameters import AFTER, ENTITY_LABEL, HOSTS, LABEL, Parameter, Values, number, selection
from filters.service.ticks.condition import Condition
from filters.service.ticks.executor import Desk
from filters.service.ticks.recents import Recents
from filters.service.ticks.stream import Hub
from filters.service.ticks.tick_cache import NewestCache, TickCache

#: Answers a request by itself; parameters have been checked. Raises Problem.
Handle = Callable[[Values, Scope, Receive, Send], Awaitable[None]]


class Request(NamedTuple):
    """What is asked of a tick: parts of the path and checked parameters."""

    path: Mapping[str, str]
    values: Values
    answer_samples: int

    @property
    def selection(self) -> Selection:
        """The patterns."""
        return selection(self.values)

    @property
    def host_labels(self) -> LabelSelection:
        """The labels that hosts must have."""
        return LabelSelection.of(self.values.get(LABEL.name, ()))

    @property
    def entity_labels(self) -> LabelSelection:
        """The labels that VMs and processes must have."""
        return LabelSelection.of(self.values.get(ENTITY_LABEL.name, ()))

    @property
    def page(self) -> Page:
        """Which of the hosts."""
        (after,) = self.values.get(AFTER.name, ("",))
        return Page(number(self.values, HOSTS) if HOSTS.name in self.values else None, after)

    def chosen(self, name: str, default: Sequence[str]) -> tuple[str, ...]:
        """The values of a parameter, the default where it is not given."""
        return self.values.get(name) or tuple(default)


class Resource(NamedTuple):
    """One operation on one path: what clients must know of it, and how it is answered.

    ``build`` makes the answer from a tick, which is then kept for all who ask the same; else ``handle`` answers by
    itself. ``answer`` is the type of the JSON document, or its schema; ``media`` are the types of answers that are no
    JSON. A ``prepared`` resource is answered before anyone asks, a ``topic`` may be listened to as a stream.
    One that is ``early`` is made again as soon as a verdict changes, without waiting for the next tick. ``close`` is
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
    body: Any = None  #: type of the document that is sent
    media: tuple[str, ...] = ()
    headers: tuple[Mapping[str, Any], ...] = ()  #: parameter objects of request headers
    problems: tuple[str, ...] = ()  #: status codes, beside those that every resource, its parameters and path may have
    conditional: bool = True  #: whether If-None-Match is looked at
    close: Callable[[], None] | None = None

    def answer_of(self, request: Request, cache: TickCache) -> bytes:
        """The body that ``build`` makes."""
        assert self.build is not None
        return self.build(cache, request)


class Parts(NamedTuple):
    """What resources are declared with: the parts that they share, made where the service is put together.

    ``token``: clients must send one."""

    settings: Settings
    method: Method
    labels: Labels
    newest: NewestCache
    desk: Desk
    condition: Condition
    recents: Recents
    hub: Hub
    token: bool = False


#: Declares the resources of one file.
Declare = Callable[[Parts], Sequence[Resource]]


def fields(choices: tuple[str, ...], default: str) -> Parameter:
    """The parameter that chooses what each row of an answer holds: members of it, and figures of its samples."""
    return Parameter("fields", f"what each row holds, beside what identifies it (default: {default})", choices)
