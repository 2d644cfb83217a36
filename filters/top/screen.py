"""Screen as lines: renders only the visible part of the contents.

``render`` is pure: (contents, view, frame) -> lines of limited width. Styles only repeat what words
express, so that it can be read without colours.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from rich.text import Text

from acquisition.shards.servers.status import REPLICA, ShardStatus
from acquisition.snapshot.values.states import STATES
from acquisition.status import text as status_text
from acquisition.terminal import printable
from acquisition.wire.records import planes
from filters.text.quantities import seconds
from filters.text.states import state_style
from filters.top.columns import COLUMNS, Cell, Column, Row, figure, has_figures, laid_out
from filters.top.contents import Contents, Opened, place_of, shown
from filters.top.key_actions import KEYS
from filters.top.listings.history import History, empty
from filters.top.listings.listing import HOSTS, STATE_CURRENT, Listing
from filters.top.look import Look
from filters.top.view import HELP, SHARDS, Level, Page, Rows, View, position, scrolled, visible_rows

_FOOTER = "? help  Enter open  Esc back  / filter  s order  p pause  2 shards  q quit"
_REST = 2  #: the title line and the footer
_FEWEST = 3  #: minimum of rows before a header is shown
_HELP_INDENT, _HELP_WIDTH = 20, 79
_ABSENCE = "the host lacks this tick; down: it has been silent for long. It has no figures then"


class Frame(NamedTuple):
    """Facts that do not come from the shards: size and capabilities of the terminal, the displayed time, the age of
    the picture in seconds while it is unchanged, and resource sets by number."""

    width: int
    height: int
    look: Look
    clock: str = ""
    still: float | None = None
    set_names: Mapping[int, str] = {}


class Screen(NamedTuple):
    """``lines`` fill the frame from the top; ``page``: reference of the next key; ``view``: as shown."""

    lines: list[Text]
    page: Page
    view: View


def render(contents: Contents, view: View, frame: Frame) -> Screen:
    """Render the screen of a view."""
    level = view.level
    if level.kind in (HELP, SHARDS):
        return _text_screen(contents, view, frame)
    listing, past = shown(contents, level)
    head = _head(contents, view, frame)
    height = max(1, frame.height - len(head) - _REST)
    if listing is None:
        lines = [*head, Text(), Text("  reading …", "dim")]
        return _filled(lines, Page((), height, contents.sets), view, frame)
    rows = visible_rows(listing, level.sort, level.backwards, level.pattern)
    page = Page(tuple(listing.ids[rows].tolist()), height, contents.sets)
    level = scrolled(level, page) if page.ids else level
    view = view._replace(path=(*view.path[:-1], level))
    lines = [*head, *_table(listing, past, rows, level, page, frame)]
    return _filled(lines, page, view, frame)


def _head(contents: Contents, view: View, frame: Frame) -> list[Text]:
    """The lines above the table; on a low screen rows have priority."""
    lines = of_level(contents, view, frame.clock, frame.still)
    return lines[: max(0, frame.height - _REST - _FEWEST)]


def _table(listing: Listing, past: History, rows: Rows, level: Level, page: Page, frame: Frame) -> list[Text]:
    """Titles and rows of one page."""
    on_page = rows[level.first : level.first + page.height].tolist()
    longest = max(map(len, listing.names), default=0)
    columns = laid_out(listing, max(1, frame.width - 1), longest)
    lines = [_titles(columns, level, frame.look)]
    if not on_page:
        nothing = f"no row matches {level.pattern!r}: Esc shows all" if level.pattern else "no rows (yet)"
        return [*lines, Text(frame.look.text(f"  {nothing}"), "yellow")]
    chosen = position(level, page) - level.first
    for line, at in enumerate(on_page):
        lines.append(_row(Row(listing, past, at, 0, frame.look.levels), columns, line == chosen, frame.look))
    return lines


def _titles(columns: Sequence[tuple[Column, int]], level: Level, look: Look) -> Text:
    text = Text(" ", "dim")
    for column, width in columns:
        sorted_by = column.name == level.sort
        mark = ("▴" if level.backwards else "▾") if sorted_by and len(column.heading(width)) < width else ""
        text.append(
            look.fitted(column.heading(width) + mark, width, column.right), "bold underline" if sorted_by else ""
        )
        text.append(" ")
    return text


def _row(row: Row, columns: Sequence[tuple[Column, int]], chosen: bool, look: Look) -> Text:
    """A row of figures, or the reason for their absence: a missing figure must not look idle."""
    listing, at = row.listing, row.at
    text = Text(look.text("▸") if chosen else " ", "reverse" if chosen else "")
    if has_figures(listing, at):
        for column, width in columns:
            cell = _cell(column, row._replace(width=width))
            text.append(look.fitted(cell.text, width, column.right, middle=column is columns[0][0]), cell.style)
            text.append(" ")
    else:
        _without_figures(text, row, columns, look)
    if chosen:
        text.stylize("reverse")
    return text


def _cell(column: Column, row: Row) -> Cell:
    return column.cell(row) if column.cell is not None else Cell("")


def _without_figures(text: Text, row: Row, columns: Sequence[tuple[Column, int]], look: Look) -> None:
    listing, at = row.listing, row.at
    state = STATES[listing.state[at]]
    name, name_width = columns[0]
    room = sum(width for _, width in columns[1:]) + max(0, len(columns) - 2)
    age = f"seen {seconds(float(listing.age[at]))} ago" if listing.age[at] == listing.age[at] else "never seen"
    style = state_style(state)
    text.append(look.fitted(_cell(name, row._replace(width=name_width)).text, name_width, middle=True), style)
    text.append(" ")
    text.append(look.fitted(f"{state}, {age}: {listing.reasons[at]}", room), style)


def _text_screen(contents: Contents, view: View, frame: Frame) -> Screen:
    """Help, or shards and books in the words of ``shardpulse status``."""
    head = _head(contents, view, frame)
    body = help_lines() if view.level.kind == HELP else _status_lines(contents, frame)
    page = Page((), max(1, frame.height - len(head) - 1), contents.sets, len(body))
    level = scrolled(view.level, page)
    view = view._replace(path=(*view.path[:-1], level))
    return _filled([*head, *body[level.first : level.first + page.height]], page, view, frame)


def help_lines() -> list[Text]:
    """Keys and columns with their meaning, at most 79 columns wide."""
    columns = [(column.title, column.help) for column in COLUMNS[HOSTS] if column.help]
    extra = [(plane.figure.upper(), plane.help) for plane in planes.extra()]
    lines = [Text("KEYS", "bold"), *(line for name, meaning in KEYS for line in _entry(name, meaning))]
    lines += [Text(), Text("COLUMNS", "bold")]
    meanings = [*columns, ("late, down", _ABSENCE), *extra]
    return lines + [line for name, meaning in meanings for line in _entry(name, meaning)]


def _entry(name: str, meaning: str) -> list[Text]:
    parts = textwrap.wrap(meaning, _HELP_WIDTH - _HELP_INDENT)
    heads = [name, *[""] * len(parts)]
    return [Text.assemble((f"{head:<{_HELP_INDENT}}", "bold"), part) for head, part in zip(heads, parts, strict=False)]


def _status_lines(contents: Contents, frame: Frame) -> list[Text]:
    health = contents.observation.health
    if health is None:
        return [Text(), Text("  reading …", "dim")]
    return list(status_text.lines(health, frame.set_names, 1000))


def _filled(lines: list[Text], page: Page, view: View, frame: Frame) -> Screen:
    """Exactly ``height`` lines: cut or filled; the last one is the footer or the filter being typed."""
    body = [*lines, *[Text()] * frame.height][: max(0, frame.height - 1)]
    if view.typing is not None:
        last = Text(f"/{view.typing}_   Enter keeps, Esc clears", "bold")
    else:
        last = Text(_FOOTER, "dim")
    if frame.height > 1:
        body.append(last)
    elif view.typing is not None or not body:
        body = [last]
    return Screen([_shown(line, frame) for line in body], page, view)


def _shown(line: Text, frame: Frame) -> Text:
    """A line in characters of this terminal, cut to its width."""
    line = line.copy()
    if not frame.look.utf8:
        line.plain = frame.look.text(line.plain)
    line.truncate(max(1, frame.width), overflow="crop")
    return line


# -- The lines above a table: location, states of all hosts, a notice of an unchanged picture, errors.

_TITLES = {HELP: "help", SHARDS: "shards and books"}
_FULL = 0.9


def of_level(contents: Contents, view: View, clock: str, still: float | None) -> list[Text]:
    """Two or three lines; ``still``: seconds for which the picture has been unchanged, None while it changes."""
    level = view.level
    first = Text.assemble(("shardpulse top", "bold cyan"), f" {clock}  ")
    if level.kind == HOSTS:
        lines = [first.append_text(_counts(contents.hosts)), _load(contents)]
    elif level.kind in _TITLES:
        lines = [first.append(_TITLES[level.kind], "bold")]
    else:
        opened = contents.below.get(place_of(level), Opened(None, empty(), ""))
        lines = [first.append_text(_place(opened)), _common(contents, opened.listing, level.host)]
    notes = _notes(contents, view, still)
    return [*lines, notes] if notes.plain else lines


def _counts(hosts: Listing) -> Text:
    text = Text(f"{hosts.rows:,} host{'s' * (hosts.rows != 1)}: ")
    for number, state in enumerate(STATES):
        count = int((hosts.state == number).sum())
        if count or number == STATE_CURRENT:
            text.append(", " if number else "")
            text.append(f"{count:,} {state}", state_style(state) if count else "")
    current = hosts.tick[hosts.state == STATE_CURRENT]
    return text.append(f"  tick {int(current.max())}" if len(current) else "")


def _load(contents: Contents) -> Text:
    known = contents.hosts.mean[np.isfinite(contents.hosts.mean)]
    figures = f"cpu median {np.median(known):.3f}, highest {known.max():.3f}" if len(known) else "cpu missing"
    text = Text(f"{figures}  ")
    least = "at least " * bool(contents.observation.snapshot.errors)
    lost = "unknown" if contents.lost is None else f"{least}{contents.lost:,}"
    text.append(f"samples lost {lost}", "" if contents.lost == 0 else "bold red")
    return text.append("  ").append_text(_shards(contents.observation.shards))


def _shards(shards: Sequence[ShardStatus]) -> Text:
    masters = [shard for shard in shards if shard.role != REPLICA]
    if not masters:
        return Text("shards …", "dim")
    answering = sum(shard.answering for shard in masters)
    text = Text(f"shards {answering} of {len(masters)}", "bold red" if answering < len(masters) else "")
    fullest = max((s.memory_bytes / s.memory_limit_bytes for s in masters if s.memory_limit_bytes), default=None)
    if fullest is not None:
        text.append(f", fullest {fullest:.0%}", "bold red" if fullest > _FULL else "")
    return text


def _place(opened: Opened) -> Text:
    text = Text(opened.title, "bold")
    rows = opened.listing.rows if opened.listing is not None else 0
    return text.append(f"  {rows} rows" if rows else "")


def _common(contents: Contents, listing: Listing | None, host: int) -> Text:
    """Common text of the rows, and the host's own CPU."""
    text = Text()
    if listing is not None and listing.heading:
        state, *rest = listing.heading
        text.append(state, state_style(state))
        text.append("".join(f" · {part}" for part in rest))
    at = np.flatnonzero(contents.hosts.ids == host)
    if len(at) and contents.hosts.state[at[0]] == STATE_CURRENT:
        i = int(at[0])
        mean, memory = figure(float(contents.hosts.mean[i]), "ratio"), figure(float(contents.hosts.memory[i]), "ratio")
        text.append(f"  host cpu {mean}, memory {memory}")
    return text


def _notes(contents: Contents, view: View, still: float | None) -> Text:
    """Important notes, the worst first: unreadable, paused, incomplete."""
    observation, parts = contents.observation, Text()
    if observation.error:
        parts.append(f"CANNOT BE READ for {seconds(still or 0.0)}: {printable(observation.error)}  ", "bold red")
    if view.paused:
        parts.append(f"PAUSED, {seconds(still or 0.0)} old  ", "bold yellow")
    if view.level.pattern and view.typing is None:
        parts.append(f"filter: {view.level.pattern}  ", "bold")
    for error in observation.snapshot.errors:
        parts.append(f"{printable(error)}  ", "red")
    if observation.snapshot.damaged:
        parts.append(f"{observation.snapshot.damaged} damaged records", "red")
    return parts
