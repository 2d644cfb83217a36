"""The help screen: keys, columns, and what the words mean."""

from __future__ import annotations

import textwrap

from rich.text import Text

from acquisition.wire import planes
from filters.top.key_actions import KEYS

_COLUMNS = (
    ("CPU", "smoothed use: of a host 1 - idle - iowait, a part of all its cores; of a VM or process in cores. "
     "An arrow: it changes by more than 0.005 per second"),
    ("±DEV", "standard deviation, smoothed as well; of a host at most so much"),
    ("RAW", "the newest raw value, or why it is not valid (a validity code)"),
    ("RAW SMOOTHED", "the last ticks, newest at the right, both to the same scale; ? is a tick without a valid value"),
    ("MEM", "of a host memory used: 1 - available / total; of a VM or process its resident memory"),
    ("INV", "samples of this tick that failed a check (not those that are MISSING or LATE); of a host its own metrics"),
    ("AGE", "seconds since the newest valid value was sampled"),
    ("late, down", "the host has not this tick; down: it has not been heard of for long. It has no figures then"),
)  # fmt: skip
_INDENT = 20
_WIDTH = 79


def help_lines() -> list[Text]:
    """All lines, at most 79 columns."""
    lines = [Text("KEYS", "bold")]
    lines += [line for name, meaning in KEYS for line in _entry(name, meaning)]
    lines += [Text(), Text("COLUMNS", "bold")]
    extra = ((plane.figure.upper(), plane.help) for plane in planes.extra())
    return lines + [line for name, meaning in (*_COLUMNS, *extra) for line in _entry(name, meaning)]


def _entry(name: str, meaning: str) -> list[Text]:
    parts = textwrap.wrap(meaning, _WIDTH - _INDENT)
    heads = [name, *[""] * len(parts)]
    return [Text.assemble((f"{head:<{_INDENT}}", "bold"), part) for head, part in zip(heads, parts, strict=False)]
