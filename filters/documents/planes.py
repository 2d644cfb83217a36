"""Plane document: the figures kept of every sample, for clients."""

from __future__ import annotations

from msgspec import Struct

from acquisition.wire.records import planes


class FigureDocument(Struct, frozen=True):
    """One figure. It has the unit of the metric, or ``unit`` where that is not null, or that ``per_second``. An
    ``extra`` one stands under that word in readings, and is null unless the filter runs its kernel."""

    name: str
    help: str
    unit: str | None
    per_second: bool
    extra: bool


class FiguresDocument(Struct, frozen=True):
    """All figures, in the order in which they are shown."""

    figures: list[FigureDocument]


def figures_document() -> FiguresDocument:
    """The figures of this installation."""
    return FiguresDocument(
        [
            FigureDocument(plane.figure, plane.help, plane.unit, plane.per_second, plane not in planes.OWN)
            for plane in planes.known()
        ]
    )
