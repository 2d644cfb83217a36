"""Which text format a scraper asks for in its Accept header (RFC 9110, section 12.5.1)."""

from __future__ import annotations

from filters.exposition.syntax import CLASSIC, OPENMETRICS, Syntax

#: Versions that OpenMetrics 1.0.0 text satisfies: Prometheus asks for both.
_OPENMETRICS_VERSIONS = ("", "1.0.0", "0.0.1")
_CLASSIC_VERSIONS = ("", "0.0.4")
_MOST_CHARACTERS = 4096


def negotiate(accept: str | None) -> Syntax:
    """The format to answer with: OpenMetrics, unless the header ranks the classic text format higher.

    Without a header, with ``*/*``, or with a header that names neither, the answer is OpenMetrics: RFC 9110
    lets a server disregard a header that it cannot satisfy. Anything malformed in it is passed over.
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
    """The formats that one element of the header covers, with how precisely it names them."""
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
    """Media type, version and weight of one element; weight 0 where it is none."""
    media_type, *parameters = (part.strip() for part in element.lower().split(";"))
    named = {key.strip(): value.strip().strip('"') for key, _, value in (part.partition("=") for part in parameters)}
    try:
        weight = float(named.get("q", "1"))
    except ValueError:
        weight = 0.0
    return media_type, named.get("version", ""), weight if 0.0 <= weight <= 1.0 else 0.0
