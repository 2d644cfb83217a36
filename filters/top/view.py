"""What the person at the terminal has chosen, as a value: a path of levels, each with its own order and selection."""

from __future__ import annotations

from typing import NamedTuple

from acquisition.model.metric import HOST_SET
from filters.top import columns
from filters.top.listings.listing import ENTITIES, HOSTS, METRICS

SHARDS = "shards"
HELP = "help"


class Level(NamedTuple):
    """One screen on the path. ``selected`` is the id of a row, None the first one, whichever that is;
    ``first`` is the row at the top of the page, of texts the line."""

    kind: str = HOSTS
    host: int = 0
    resource_set: str = ""
    entity: int | None = None
    sort: str = columns.CPU
    backwards: bool = False
    pattern: str = ""
    selected: int | None = None
    first: int = 0


class View(NamedTuple):
    """Everything that keys change. ``typing`` is the filter while it is being typed, None otherwise."""

    path: tuple[Level, ...] = (Level(),)
    paused: bool = False
    typing: str | None = None
    done: bool = False

    @property
    def level(self) -> Level:
        """The screen that is shown."""
        return self.path[-1]

    @property
    def host(self) -> int:
        """The host that is open, also while a text lies above it; 0 for none."""
        return next((level.host for level in reversed(self.path) if level.host), 0)


class Page(NamedTuple):
    """What a key needs to know of what is shown: ids of all rows in order, rows on a page, the
    resource sets that the host has; of a text ``ids`` is empty and ``lines`` its length."""

    ids: tuple[int, ...] = ()
    height: int = 1
    sets: tuple[str, ...] = ()
    lines: int = 0


def level_of_host(host: int) -> Level:
    """What is below a host; which resource set that is depends on what it has."""
    return Level(ENTITIES, host)


def level_of_set(level: Level, resource_set: str) -> Level:
    """Another resource set of the same host: its own metrics need no choice of an entity."""
    kind = METRICS if resource_set == HOST_SET else ENTITIES
    return Level(kind, level.host, resource_set, sort=columns.SORTS[kind][0])


def level_of_entity(level: Level, entity: int) -> Level:
    """The metrics of one VM or process."""
    return Level(METRICS, level.host, level.resource_set, entity, sort=columns.AS_IS)


def position(level: Level, page: Page) -> int:
    """The index of the selected row; 0 where nothing is selected or it has gone."""
    if level.selected is not None and level.selected in page.ids:
        return page.ids.index(level.selected)
    return 0


def scrolled(level: Level, page: Page) -> Level:
    """The level with its page moved no more than is needed for the selected row to be on it, or of a text
    for the page to be full."""
    height = max(1, page.height)
    if not page.ids:
        return level._replace(first=max(0, min(level.first, page.lines - height)))
    at = position(level, page)
    first = max(at - height + 1, min(level.first, at, max(0, len(page.ids) - height)))
    return level._replace(first=max(0, first))
