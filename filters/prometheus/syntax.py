"""Syntax of the two text formats: OpenMetrics 1.0 and text format 0.0.4.

Sources: the OpenMetrics specification (sections "ABNF" and "Escaping"), and "Exposition formats" in the
Prometheus documentation. Both are UTF-8. Every text here begins each of its lines with a line feed instead
of ending it with one; ``render`` moves the first one to the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

# -- A metric family: contents of its HELP, TYPE and UNIT lines, and labels of its series.

GAUGE = "gauge"
COUNTER = "counter"  #: its series are named ``NAME_total``
INFO = "info"  #: its series are named ``NAME_info`` and are always 1

_SUFFIXES = {COUNTER: "_total", INFO: "_info"}

#: A series: its labels as text, without braces, and its value. None: no value, and no series.
Series = tuple[str, float | int | None]


class Family(NamedTuple):
    """``name`` ends with ``_UNIT`` if there is a unit, and has no suffix of its type."""

    name: str
    kind: str
    help: str
    unit: str = ""
    labels: tuple[str, ...] = ()

    @property
    def series_name(self) -> str:
        """Name of its series, for queries."""
        return self.name + _SUFFIXES.get(self.kind, "")


#: A family and its series.
Filled = tuple[Family, Iterable[Series]]


class Syntax(NamedTuple):
    """``media_type`` and ``version``: as accepted by a scraper; ``ending``: last line, if required."""

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
    """The header lines of a family. The classic format has no units and no info, and names a
    counter like its series."""
    if syntax is OPENMETRICS:
        unit = f"\n# UNIT {family.name} {family.unit}" if family.unit else ""
        text = encodable(family.help).translate(_ESCAPES)
        return f"\n# TYPE {family.name} {family.kind}{unit}\n# HELP {family.name} {text}"
    name, kind = family.series_name, GAUGE if family.kind == INFO else family.kind
    return f"\n# HELP {name} {encodable(family.help).translate(_CLASSIC_HELP_ESCAPES)}\n# TYPE {name} {kind}"


def lines(family: Family, series: Iterable[Series]) -> str:
    """Lines of series; those without a value are omitted."""
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
    """A label value as written between quotation marks."""
    return encodable(value).translate(_ESCAPES)


def encodable(text: str) -> str:
    """The text, with a lone surrogate (an undecodable byte of a process name) as backslash, u and four digits.

    One of them would make the whole answer invalid UTF-8, and the scraper would drop all of it.
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


# -- The text format requested by a scraper's Accept header (RFC 9110, section 12.5.1).

#: Versions satisfied by OpenMetrics 1.0.0 text: Prometheus requests both.
_OPENMETRICS_VERSIONS = ("", "1.0.0", "0.0.1")
_CLASSIC_VERSIONS = ("", "0.0.4")
_MOST_CHARACTERS = 4096


def negotiate(accept: str | None) -> Syntax:
    """The format to answer with: OpenMetrics, unless the header ranks the classic text format higher.

    Without a header, with ``*/*``, or with a header that names neither, the answer is OpenMetrics: RFC 9110
    allows a server to disregard a header that it cannot satisfy. Malformed parts are ignored.
    """
    weights = {OPENMETRICS: -1.0, CLASSIC: -1.0}
    precision = {OPENMETRICS: -1, CLASSIC: -1}
    for element in (accept or "")[:_MOST_CHARACTERS].split(","):
        media_type, version, weight = _parsed(element)
        for syntax, rank in _matches(media_type, version):
            if rank > precision[syntax] or (rank == precision[syntax] and weight > weights[syntax]):
                precision[syntax], weights[syntax] = rank, weight
    return CLASSIC if weights[CLASSIC] > max(weights[OPENMETRICS], 0.0) else OPENMETRICS


def _matches(media_type: str, version: str) -> list[tuple[Syntax, int]]:
    """The formats covered by one element of the header, with the precision of the match."""
    if media_type == "*/*":
        return [(OPENMETRICS, 0), (CLASSIC, 0)]
    if media_type == "text/*":
        return [(CLASSIC, 1)]
    if media_type == "application/*":
        return [(OPENMETRICS, 1)]
    if media_type == OPENMETRICS.media_type and version in _OPENMETRICS_VERSIONS:
        return [(OPENMETRICS, 2)]
    if media_type == CLASSIC.media_type and version in _CLASSIC_VERSIONS:
        return [(CLASSIC, 2)]
    return []


def _parsed(element: str) -> tuple[str, str, float]:
    """Media type, version and weight of one element; weight 0 if invalid."""
    media_type, *parameters = (part.strip() for part in element.lower().split(";"))
    named = {key.strip(): value.strip().strip('"') for key, _, value in (part.partition("=") for part in parameters)}
    try:
        weight = float(named.get("q", "1"))
    except ValueError:
        weight = 0.0
    return media_type, named.get("version", ""), weight if 0.0 <= weight <= 1.0 else 0.0
