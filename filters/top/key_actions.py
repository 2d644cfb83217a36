"""Key actions: a pure function (view, key, page) -> view.

Unknown keys have no effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from filters.top import columns
from filters.top.listings.listing import ENTITIES, HOSTS, METRICS
from filters.top.view import (
    HELP,
    SHARDS,
    Level,
    Page,
    View,
    level_of_entity,
    level_of_host,
    level_of_set,
    position,
    scrolled,
)

#: Keys and their effects, as on the help screen.
KEYS = (
    ("up down j k", "select a row"),
    ("PgUp PgDn Home End", "page up, page down, first row, last row (also Ctrl-B, Ctrl-F, g, G)"),
    ("Enter right l", "open a host's VMs, or its processes if it has none; then the metrics of one"),
    ("Esc left h Bksp", "back"),
    ("Tab", "within a host: VMs, processes, its own metrics"),
    ("/", "filter by name; * and ? are wildcards, =late =down =current are states; Esc clears"),
    ("s S", "sort by the next, the previous column"),
    (" ".join(column.key for column in columns.KEYED), f"sort by {', '.join(one.word for one in columns.KEYED)}"),
    ("r", "reverse the order"),
    ("p Space", "pause: freeze the data and show its age; keys still work"),
    ("1 2 ?", "hosts, shards and books, this help"),
    ("Ctrl-L", "redraw everything"),
    ("q Ctrl-C", "quit"),
)
#: Maximum length of a typed filter.
LONGEST = 60
_LETTERS = {column.key: column.name for column in columns.KEYED}
_TEXTS = (HELP, SHARDS)


def apply_key(view: View, key: str, page: Page) -> View:
    """The view after a key (names as in ``decode``)."""
    if view.typing is not None:
        return _typed(view, key, view.typing)
    action = _ACTIONS.get(key)
    if action is not None:
        return action(view, page)
    if key in _LETTERS:
        return _sorted_by(view, _LETTERS[key])
    return view


def _typed(view: View, key: str, text: str) -> View:
    """While a filter is typed, it applies immediately; Enter keeps it, Esc removes it."""
    if key == "enter":
        return view._replace(typing=None)
    if key == "escape":
        return _filtered(view, "")._replace(typing=None)
    if key == "interrupt":
        return view._replace(done=True)
    if key == "backspace":
        text = text[:-1]
    elif key == "erase":
        text = ""
    elif key == "space":
        text += " "
    elif len(key) == 1 and key.isprintable():
        text = (text + key)[:LONGEST]
    return _filtered(view, text)._replace(typing=text)


def _filtered(view: View, pattern: str) -> View:
    return _with(view, view.level._replace(pattern=pattern, first=0))


def _with(view: View, level: Level) -> View:
    return view._replace(path=(*view.path[:-1], level))


def _move(rows: Callable[[int, int], int]) -> Callable[[View, Page], View]:
    """Select another row, or scroll a text; ``rows`` computes a distance from (page height, length)."""

    def moved(view: View, page: Page) -> View:
        level = view.level
        if not page.ids:
            distance = rows(page.height, page.lines)
            return _with(view, scrolled(level._replace(first=max(0, level.first + distance)), page))
        at = position(level, page) + rows(page.height, len(page.ids))
        at = max(0, min(at, len(page.ids) - 1))
        return _with(view, scrolled(level._replace(selected=page.ids[at]), page))

    return moved


def _home(view: View, page: Page) -> View:
    """Go to the first row, whichever it will be later: no particular row is selected."""
    del page
    return _with(view, view.level._replace(selected=None, first=0))


def _open(view: View, page: Page) -> View:
    level = view.level
    if level.kind not in (HOSTS, ENTITIES) or not page.ids:
        return view
    chosen = page.ids[position(level, page)]
    below = level_of_host(chosen) if level.kind == HOSTS else level_of_entity(level, chosen)
    return view._replace(path=(*view.path[:-1], level._replace(selected=chosen), below))


def _back(view: View, page: Page) -> View:
    """Go one level up; at the top, clear the filter first. Never quits: Esc is pressed too easily."""
    del page
    if len(view.path) > 1:
        return view._replace(path=view.path[:-1])
    return _filtered(view, "") if view.level.pattern else view


def _next_set(view: View, page: Page) -> View:
    level = view.level
    if not page.sets or level.entity is not None or level.kind not in (ENTITIES, METRICS):
        return view
    current = level.resource_set if level.resource_set in page.sets else page.sets[0]
    return _with(view, level_of_set(level, page.sets[(page.sets.index(current) + 1) % len(page.sets)]))


def _next_sort(step: int) -> Callable[[View, Page], View]:
    def turned(view: View, page: Page) -> View:
        del page
        choices = columns.SORTS.get(view.level.kind, ())
        if not choices:
            return view
        at = choices.index(view.level.sort) if view.level.sort in choices else 0
        return _sorted_by(view, choices[(at + step) % len(choices)])

    return turned


def _sorted_by(view: View, sort: str) -> View:
    level = view.level
    if sort not in columns.SORTS.get(level.kind, ()):
        return view
    return _with(view, level._replace(sort=sort, backwards=False, first=0))


def _reverse(view: View, page: Page) -> View:
    del page
    return _with(view, view.level._replace(backwards=not view.level.backwards, first=0))


def _show(kind: str) -> Callable[[View, Page], View]:
    """Show a text over the current screen; the same key closes it."""

    def shown(view: View, page: Page) -> View:
        if view.level.kind == kind:
            return _back(view, page)
        below = view.path[:-1] if view.level.kind in _TEXTS else view.path
        return view._replace(path=(*below, Level(kind)))

    return shown


def _to_hosts(view: View, page: Page) -> View:
    del page
    return view._replace(path=view.path[:1])


def _type(view: View, page: Page) -> View:
    del page
    return view if view.level.kind in _TEXTS else view._replace(typing=view.level.pattern)


def _pause(view: View, page: Page) -> View:
    del page
    return view._replace(paused=not view.paused)


def _quit(view: View, page: Page) -> View:
    del page
    return view._replace(done=True)


_BY_NAME: Mapping[str, Callable[[View, Page], View]] = {
    "up k": _move(lambda height, length: -1),  # noqa: ARG005 - one signature for all
    "down j": _move(lambda height, length: 1),  # noqa: ARG005
    "page-up ctrl-b": _move(lambda height, length: -height),  # noqa: ARG005
    "page-down ctrl-f": _move(lambda height, length: height),  # noqa: ARG005
    "end G": _move(lambda height, length: length),  # noqa: ARG005
    "home g": _home,
    "enter right l": _open,
    "escape left h backspace": _back,
    "tab": _next_set,
    "s": _next_sort(1),
    "S": _next_sort(-1),
    "r": _reverse,
    "/": _type,
    "p space": _pause,
    "q interrupt": _quit,
    "?": _show(HELP),
    "2": _show(SHARDS),
    "1": _to_hosts,
}
_ACTIONS = {key: action for names, action in _BY_NAME.items() for key in names.split(" ")}


# -- From terminal input to names of keys (xterm's control sequences; ECMA-48, console_codes(4)).

_NAMED = {
    b"\r": "enter", b"\n": "enter", b"\t": "tab", b" ": "space", b"\x7f": "backspace", b"\x08": "backspace",
    b"\x03": "interrupt", b"\x15": "erase", b"\x02": "ctrl-b", b"\x06": "ctrl-f", b"\x0c": "redraw",
}  # fmt: skip
_SEQUENCES = {
    b"A": "up", b"B": "down", b"C": "right", b"D": "left", b"H": "home", b"F": "end", b"M": "enter",
    b"1~": "home", b"7~": "home", b"4~": "end", b"8~": "end", b"5~": "page-up", b"6~": "page-down",
}  # fmt: skip
_ESCAPE = b"\x1b"
#: CSI or SS3, parameters, a final byte.
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[0-9;]*[@-~])")
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|O[0-9;]*)?")
_LONGEST_SEQUENCE = 32


def decode(data: bytes, final: bool = False) -> tuple[list[str], bytes]:
    """Keys in ``data`` and the rest that may be incomplete; ``final``: no more input follows.

    Characters are their own names; unknown sequences are dropped.
    """
    keys: list[str] = []
    while data:
        key, size = _first(data, final)
        if not size:
            break
        if key:
            keys.append(key)
        data = data[size:]
    return keys, data


def _first(data: bytes, final: bool) -> tuple[str, int]:
    """Name ("" for none) and size of the first key; size 0: incomplete."""
    if data.startswith(_ESCAPE):
        found = _SEQUENCE.match(data)
        if found:
            return _SEQUENCES.get(_essence(found[0]), ""), found.end()
        unfinished = _UNFINISHED.fullmatch(data)
        if unfinished and not final and len(data) < _LONGEST_SEQUENCE:
            return "", 0
        return "escape", 1
    byte = data[:1]
    if byte in _NAMED:
        return _NAMED[byte], 1
    size = _utf8_size(byte[0])
    if len(data) < size and not final:
        return "", 0
    text = data[:size].decode("utf-8", "ignore")
    return (text, size) if len(text) == 1 and text.isprintable() else ("", 1)


def _essence(sequence: bytes) -> bytes:
    """The sequence without its introducer and the parameters of shift and control (``1;5A`` is ``A``)."""
    body = sequence[2:]
    if sequence[1:2] == b"[" and body.endswith(b"M"):
        return b""  # a mouse; the keypad's Enter is SS3 M
    number, _, _ = body[:-1].partition(b";")
    return number + body[-1:] if body.endswith(b"~") else body[-1:]


def _utf8_size(byte: int) -> int:
    return 1 if byte < 0xC0 else 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
