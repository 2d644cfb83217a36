"""Look of a terminal: UTF-8 or ASCII; text cut and padded to columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from acquisition.terminal import printable
from filters.text.sparkline import ASCII, BLOCKS

_ASCII_FOR = str.maketrans({"…": "~", "±": "~", "·": "-", "↑": "+", "↓": "-", "▾": "v", "▴": "^", "▸": ">", "→": ">"})


class Look(NamedTuple):
    """``utf8`` False: only ASCII is written, whatever names contain."""

    utf8: bool = True

    @property
    def levels(self) -> str:
        """Characters of sparklines, lowest first."""
        return BLOCKS if self.utf8 else ASCII

    def text(self, text: str) -> str:
        """Text printable on this terminal; other characters become question marks."""
        text = printable(text)
        if self.utf8:
            return text
        return text.translate(_ASCII_FOR).encode("ascii", "replace").decode()

    def fitted(self, text: str, width: int, right: bool = False, middle: bool = False) -> str:
        """Text of exactly ``width`` columns, with an ellipsis at the end or in the middle if it was cut."""
        text = self.text(text)
        size = cell_len(text)
        if width <= 0:
            return ""
        if size > width:
            tail = _end(text, (width - 1) // 2) if middle else ""
            return set_cell_size(text, width - 1 - cell_len(tail)) + self.text("…") + tail
        return " " * (width - size) + text if right else text + " " * (width - size)


def _end(text: str, width: int) -> str:
    """The last characters of a text that fit in ``width`` columns."""
    tail = text[len(text) - width :] if width else ""
    while cell_len(tail) > width:
        tail = tail[1:]
    return tail


def speaks_utf8(encoding: str | None, environment: Mapping[str, str]) -> bool:
    """Whether the terminal accepts UTF-8: both the locale and Python's encoding name it.

    Python writes UTF-8 under the C locale as well (PEP 538, PEP 540), which is no evidence about the terminal.
    Locale variables in order of precedence: LC_ALL, LC_CTYPE, LANG (locale(7)).
    """
    locale = next((environment[name] for name in ("LC_ALL", "LC_CTYPE", "LANG") if environment.get(name)), "")
    named = locale.lower().replace("-", "").endswith("utf8") or "utf8@" in locale.lower().replace("-", "")
    return named and (encoding or "").lower().replace("-", "") == "utf8"
