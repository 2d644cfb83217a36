"""Committed figures: per row and length, with commit, date, machine, command."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from experiments.figures.kinds import Row
from experiments.figures.measure import Measured, Number
from experiments.harness import machine
from experiments.harness.outcome import RESULTS

FILE = RESULTS / "figures.json"
SHORT, FULL = "short", "full"

#: Row -> ``short`` or ``full`` -> entry.
Entries = dict[str, dict[str, dict[str, Any]]]


def load() -> Entries:
    """Committed entries; none without the file."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def keep(measured: Measured, full: bool) -> None:
    """Replace the entry of a row."""
    entries = load()
    entries.setdefault(measured.row.name, {})[FULL if full else SHORT] = entry(measured, full)
    FILE.write_text(json.dumps(entries, indent=1) + "\n")


def entry(measured: Measured, full: bool) -> dict[str, Any]:
    """Entry for a row just measured."""
    row = measured.row
    return {
        **machine.provenance(list(row.command(full)), f"experiments.{row.program}"),
        "machine": machine.describe(),
        "seconds": round(measured.seconds, 1),
        "figures": {
            figure.path: number._asdict() for figure, number in zip(row.figures, measured.numbers, strict=True)
        },
    }


def numbers(found: dict[str, Any] | None, row: Row) -> Sequence[Number]:
    """Figures of an entry in the order of the row's; missing ones have no value."""
    known = (found or {}).get("figures", {})
    return [Number(**known.get(figure.path, {"value": None})) for figure in row.figures]


def stale(found: dict[str, Any], row: Row) -> bool:
    """Whether the dependencies of the figures have changed since their commit, as far as git can show."""
    return machine.changed_since(found["commit"], row.depends)
