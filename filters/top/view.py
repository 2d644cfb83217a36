"""View chosen at the terminal, and the rows of a listing it shows.

It is a path of levels, each with its own order and selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from acquisition.model.metric import HOST_SET
from acquisition.snapshot.values.states import STATES
from filters.top import columns
from filters.top.listings.listing import ENTITIES, HOSTS, METRICS, Listing

SHARDS = "shards"
HELP = "help"


class Level(NamedTuple):
    """One screen on the path. ``selected``: id of a row, None for the first one, whichever that is;
    ``first``: row at the top of the page, or line of a text."""

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
    """Everything changed by keys. ``typing``: filter being typed, otherwise None."""

    path: tuple[Level, ...] = (Level(),)
    paused: bool = False
    typing: str | None = None
    done: bool = False

    @property
    def level(self) -> Level:
        """The visible screen."""
        return self.path[-1]

    @property
    def host(self) -> int:
        """The open host, even while a text covers it; 0 for none."""
        return next((level.host for level in reversed(self.path) if level.host), 0)


class Page(NamedTuple):
    """Displayed page as used by keys: ids of all rows in order, rows per page, and the
    host's resource sets; for a text ``ids`` is empty and ``lines`` its length."""

    ids: tuple[int, ...] = ()
    height: int = 1
    sets: tuple[str, ...] = ()
    lines: int = 0


def level_of_host(host: int) -> Level:
    """Level below a host; its resource set depends on the contents of the host."""
    return Level(ENTITIES, host)


def level_of_set(level: Level, resource_set: str) -> Level:
    """Another resource set of the same host: its own metrics need no choice of an entity."""
    kind = METRICS if resource_set == HOST_SET else ENTITIES
    return Level(kind, level.host, resource_set, sort=columns.SORTS[kind][0])


def level_of_entity(level: Level, entity: int) -> Level:
    """The metrics of one VM or process."""
    return Level(METRICS, level.host, level.resource_set, entity, sort=columns.AS_IS)


def position(level: Level, page: Page) -> int:
    """Index of the selected row; 0 if none is selected or it has gone."""
    if level.selected is not None and level.selected in page.ids:
        return page.ids.index(level.selected)
    return 0


def scrolled(level: Level, page: Page) -> Level:
    """The level with its page moved no more than necessary for the selected row to be on it, or for a text
    to fill the page."""
    height = max(1, page.height)
    if not page.ids:
        return level._replace(first=max(0, min(level.first, page.lines - height)))
    at = position(level, page)
    first = max(at - height + 1, min(level.first, at, max(0, len(page.ids) - height)))
    return level._replace(first=max(0, first))


# -- Rows of a listing to show, and their order.

Rows = npt.NDArray[np.intp]


def visible_rows(listing: Listing, sort: str, backwards: bool, pattern: str) -> Rows:
    """Indexes of the rows that pass a filter, in order: greatest first (names: alphabetically), or ``backwards``.

    Rows without the sort value come last in both directions: missing is neither most nor
    least. Ties are ordered by name.
    """
    rows = np.flatnonzero(_matching(listing, pattern))
    by_name = rows if listing.kind == HOSTS else rows[_by_name([listing.names[i] for i in rows.tolist()])]
    if sort == columns.NAME:
        return by_name[::-1] if backwards else by_name
    if sort == columns.AS_IS:
        return rows[::-1] if backwards else rows
    value = _values(listing, sort)[by_name]
    known = np.isfinite(value)
    order = np.argsort(value[known] if backwards else -value[known], kind="stable")
    return np.concatenate([by_name[known][order], by_name[~known]])


def _by_name(names: Sequence[str]) -> Rows:
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.intp)


def _values(listing: Listing, sort: str) -> npt.NDArray[np.float64]:
    chosen = (column.value(listing) for column in columns.COLUMNS[listing.kind] if column.name == sort and column.value)
    return next(chosen, listing.mean).astype(np.float64)


def _matching(listing: Listing, pattern: str) -> npt.NDArray[np.bool_]:
    """Every word of the pattern must match: part of a name or label, ignoring case, a pattern with * and ?,
    or ``=late`` for a state."""
    chosen = np.ones(listing.rows, bool)
    for word in pattern.lower().split():
        if word.startswith("="):
            states = [i for i, state in enumerate(STATES) if state.startswith(word[1:])]
            chosen &= np.isin(listing.state, states)
        else:
            chosen &= np.fromiter(_hits(listing.names, listing.labels, word), bool, listing.rows)
    return chosen


def _hits(names: Sequence[str], labels: Sequence[str], word: str) -> list[bool]:
    if "*" in word or "?" in word:
        return [
            fnmatchcase(name.lower(), word) or fnmatchcase(label.lower(), word)
            for name, label in zip(names, labels, strict=True)
        ]
    return [
        word in name.lower() or (bool(label) and word in label.lower())
        for name, label in zip(names, labels, strict=True)
    ]
