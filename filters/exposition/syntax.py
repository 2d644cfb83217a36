"""The two text formats: OpenMetrics 1.0 and the classic one (text format 0.0.4) of Prometheus.

Sources: the OpenMetrics specification (sections "ABNF" and "Escaping"), and "Exposition formats" in the
Prometheus documentation. Both are UTF-8. Every text here begins each of its lines with a line feed instead
of ending it with one; ``render`` moves the first one behind the last line.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from filters.exposition.family import GAUGE, INFO, Family, Series


class Syntax(NamedTuple):
    """``media_type`` and ``version`` are what a scraper accepts; ``ending`` is the last line, if there must be one."""

    media_type: str
    version: str
    ending: str

    @property
    def content_type(self) -> str:
        """The Content-Type of an answer."""
        return f"{self.media_type}; version={self.version}; charset=utf-8"


OPENMETRICS = Syntax("application/openmetrics-text", "1.0.0", "\n# EOF")
CLASSIC = Syntax("text/plain", "0.0.4", "")

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_CLASSIC_HELP_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n"})


def head(family: Family, syntax: Syntax) -> str:
    """The lines that introduce a family. The classic format knows no units and no info, and calls a
    counter by the name of its series."""
    if syntax is OPENMETRICS:
        unit = f"\n# UNIT {family.name} {family.unit}" if family.unit else ""
        text = encodable(family.help).translate(_ESCAPES)
        return f"\n# TYPE {family.name} {family.kind}{unit}\n# HELP {family.name} {text}"
    name, kind = family.series_name, GAUGE if family.kind == INFO else family.kind
    return f"\n# HELP {name} {encodable(family.help).translate(_CLASSIC_HELP_ESCAPES)}\n# TYPE {name} {kind}"


def lines(family: Family, series: Iterable[Series]) -> str:
    """The lines of series; those without a value are left out."""
    name = family.series_name
    return "".join(
        f"\n{name}{{{labels}}} {number(value)}" if labels else f"\n{name} {number(value)}"
        for labels, value in series
        if value is not None and math.isfinite(value)
    )


def number(value: float | int) -> str:
    """A finite number; a bool is 0 or 1. Whole numbers are exact, others the shortest text that reads back equal."""
    return repr(float(value)) if isinstance(value, float) else str(int(value))


def labels(names: Iterable[str], values: Iterable[str]) -> str:
    """Label pairs without braces; names must be legal already."""
    return ",".join([f'{name}="{escaped(value)}"' for name, value in zip(names, values, strict=True)])


def escaped(value: str) -> str:
    """A label value as it stands between quotation marks."""
    return encodable(value).translate(_ESCAPES)


def encodable(text: str) -> str:
    """The text, with a lone surrogate (an undecodable byte of a process name) as backslash, u and four digits.

    One of them would make the whole answer invalid UTF-8, and the scraper would drop all of it.
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
