"""Naming of families and labels: legal, unique names for any name.

A legal name is unchanged. Any other is written in Prometheus's "value encoding" scheme
(prometheus/common, "UTF-8 escaping schemes"): ``U__`` and then the text, with underscores doubled and each
illegal character as ``_HEX_``. The scheme is injective and reversible.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from acquisition.wire.records import planes
from acquisition.wire.records.inputs import KEPT
from filters.prometheus.syntax import encodable

PREFIX = "shardpulse_"
MEAN, DEVIATION, TREND, LAST = (plane.figure for plane in planes.OWN)
#: The planes of smoothed samples by the names of their figures.
FIGURES = {plane.figure: plane for plane in planes.known()}
ABOVE, THRESHOLD = "above", "threshold"
#: Words for figures in names: a metric whose own name contains one of them is encoded.
_FIGURE_WORDS = "|".join(word for word in (*FIGURES, ABOVE, THRESHOLD, *KEPT) if word != MEAN)

#: Units indicated by the end of a name, the longest first.
_UNITS = ("bytes_per_second", "bytes", "seconds", "ratio")
#: First words of families about the pipeline itself; a resource set with such a name is encoded.
OWN_WORDS = frozenset(
    "books build entity filter findings inputs partition probe sample set shard snapshot worker".split()  # noqa: SIM905
)
_MARK = "U__"
_PLAIN_SET = re.compile(r"[a-zA-Z][a-zA-Z0-9]*")
_PLAIN_METRIC = re.compile(rf"(?!U__)(?!.*_(?:{_FIGURE_WORDS})(?:_|$))[a-zA-Z][a-zA-Z0-9_]*")
_PLAIN_LABEL = re.compile(r"(?!U__)[a-zA-Z_][a-zA-Z0-9_]*")
#: Endings that the formats reserve for the series of counters, histograms and infos (promtool complains).
_RESERVED_ENDING = re.compile(r".*_(?:count|sum|bucket|total|info|created|gcount|gsum)(?:_value)*")
_LEGAL = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")


class Name(NamedTuple):
    """A family's name and the unit at its end, if any."""

    text: str
    unit: str


def family_name(resource_set: str, metric: str, figure: str = MEAN) -> Name:
    """``shardpulse_SET_METRIC`` for the mean; other figures come before the unit: ``…_deviation_ratio``.

    ``_value`` is appended to an ending reserved by the formats (``cpu_count``).
    """
    plane = FIGURES[figure]
    if plane.unit is not None:
        return inputs_name(resource_set, metric, figure, _per_second(plane.unit) if plane.per_second else plane.unit)
    stem, unit = _stem(resource_set, metric)
    if figure == MEAN:
        return Name(f"{stem}_{unit}" if unit else stem, unit)
    return _of_figure(stem, figure, _per_second(unit) if plane.per_second else unit)


def inputs_name(resource_set: str, metric: str, word: str, unit: str | None = None) -> Name:
    """``shardpulse_SET_METRIC_WORD_UNIT``. A figure with another unit than the metric's follows the whole name of
    the metric (``…_cpu_busy_ratio_above_ticks``): another metric may differ in its unit alone."""
    stem, own = _stem(resource_set, metric)
    if unit is None:
        return _of_figure(stem, word, own)
    return _of_figure(f"{stem}_{own}" if own else stem, word, unit)


def _per_second(unit: str) -> str:
    return f"{unit}_per_second".lstrip("_")


def _of_figure(stem: str, word: str, unit: str) -> Name:
    return Name(f"{stem}_{word}" + (f"_{unit}" if unit else ""), unit)


def _stem(resource_set: str, metric: str) -> tuple[str, str]:
    """Name of the family of a metric without its unit, and the unit."""
    own = resource_set in OWN_WORDS
    prefix = _encoded(resource_set) if own or not _PLAIN_SET.fullmatch(resource_set) else resource_set
    ending = metric if _PLAIN_METRIC.fullmatch(metric) else _encoded(metric)
    if _RESERVED_ENDING.fullmatch(ending):
        ending += "_value"
    unit = next((unit for unit in _UNITS if ending.endswith(f"_{unit}")), "")
    return f"{PREFIX}{prefix}_" + (ending.removesuffix(f"_{unit}") if unit else ending), unit


def label_name(name: str) -> str:
    """``label_NAME``: labels of entities never hide our own."""
    return "label_" + (name if _PLAIN_LABEL.fullmatch(name) else _encoded(name))


def _encoded(text: str) -> str:
    return _MARK + "".join(_escape(character) for character in encodable(text))


def _escape(character: str) -> str:
    if character in _LEGAL:
        return character
    return "__" if character == "_" else f"_{ord(character):X}_"
