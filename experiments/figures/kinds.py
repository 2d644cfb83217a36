"""Row kind of the table: command, location of figures, reference."""

from __future__ import annotations

from typing import Any, NamedTuple

LESS, MORE = "less", "more"  #: the better direction


class Bare(NamedTuple):
    """A reference measured by ``references`` right before and after the row; ``field`` is in their result."""

    what: str
    kind: str
    field: str
    entities: int = 100
    metrics: int = 15


class Inside(NamedTuple):
    """A reference measured by the program with its figure; an empty ``path``: the figure is the ratio to it."""

    what: str
    path: str = ""


class Figure(NamedTuple):
    """One number of an answer, or the sum of some (``a.b + a.c``), shown times ``scale``; without reference it is shown
    and not compared."""

    path: str
    show: str
    reference: Bare | Inside | None = None
    better: str = LESS
    scale: float = 1.0

    @property
    def is_ratio(self) -> bool:
        """Whether the number is itself the ratio to the reference."""
        return isinstance(self.reference, Inside) and not self.reference.path


class Row(NamedTuple):
    """One row. ``short`` and ``full`` are the two lengths of the same command; ``depends`` are paths of the tree that
    affect its figures; ``failures`` are the names in the answer that fail the row: why the run does not count,
    ``missed`` if a missed target counts as well."""

    name: str
    what: str
    program: str
    arguments: str
    short: str
    full: str
    figures: tuple[Figure, ...]
    depends: tuple[str, ...]
    front: bool = False
    failures: str = "failures"

    def command(self, full: bool) -> tuple[str, ...]:
        """The words after ``python -m experiments.PROGRAM``."""
        return (*self.arguments.split(), *(self.full if full else self.short).split())


def find(answer: Any, path: str) -> float | None:
    """The number at ``a.b + a.c`` of a JSON object; None if one is missing or no number."""
    total = 0.0
    for part in path.split(" + "):
        value = answer
        for key in part.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if not isinstance(value, int | float) or isinstance(value, bool):
            return None
        total += value
    return total
