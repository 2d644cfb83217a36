"""Choosing hosts and VMs by their labels (pure).

A selector is ``NAME=VALUE`` (``*`` and ``?`` are wildcards of the value) or ``NAME``, which any value fulfils. Of
several selectors of one name any must hold, of several names all: ``rack=r1``, ``rack=r2``, ``ssd`` is a host of
either rack that has the label ``ssd``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import NamedTuple


class Selector(NamedTuple):
    """One of them; ``value`` is None where any will do."""

    name: str
    value: re.Pattern[str] | None

    @classmethod
    def of(cls, text: str) -> Selector:
        """The selector in a text. Raises ValueError when it has no name."""
        name, equals, value = text.partition("=")
        if not name.strip():
            raise ValueError(f"{text!r} is no NAME=VALUE or NAME")
        return cls(name, re.compile(translate(value)) if equals else None)

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether these labels fulfil it."""
        found = labels.get(self.name)
        return found is not None and (self.value is None or self.value.match(found) is not None)


class LabelSelection(NamedTuple):
    """Selectors by name; none takes everything."""

    by_name: Mapping[str, tuple[Selector, ...]] = {}

    @classmethod
    def of(cls, texts: Iterable[str]) -> LabelSelection:
        """The selection of some selectors. Raises ValueError for one that is none."""
        found: dict[str, tuple[Selector, ...]] = {}
        for selector in map(Selector.of, texts):
            found[selector.name] = (*found.get(selector.name, ()), selector)
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def takes(self, labels: Mapping[str, str]) -> bool:
        """Whether something with these labels is wanted."""
        return all(any(one.takes(labels) for one in several) for several in self.by_name.values())
