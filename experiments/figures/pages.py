"""Pages with tables, written from the committed figures between marks."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from acquisition.errors import DataError
from experiments.figures.committed import FULL, Entries, numbers
from experiments.figures.kinds import Row
from experiments.figures.table import LONG, ROWS

ROOT = Path(__file__).resolve().parents[2]
_BEGIN, _END = "<!-- python -m experiments.figures --write: {} -->", "<!-- end -->"
_PAPER = 7_680  #: samples/s of the paper's database
_RERUN = ROOT / "experiments" / "results" / "paper.json"  #: of the paper's design on a machine like ours
_NOT_AGAIN = "**not measured again since** "

Stale = Callable[[dict[str, Any], Row], bool]


class ShownRow(NamedTuple):
    """A row with the entry quoted in the documents."""

    row: Row
    entry: dict[str, Any]


def chosen(entries: Entries, rows: Sequence[Row] = (*ROWS, *LONG)) -> list[ShownRow]:
    """Measured rows, each with its newest entry; of two for the same commit the full form."""
    found = []
    for row in rows:
        forms = entries.get(row.name, {})
        newest = sorted(forms.values(), key=lambda entry: str(entry["date"]))[-1:]
        for entry in newest:
            full = forms.get(FULL, entry)
            found.append(ShownRow(row, full if full["commit"] == entry["commit"] else entry))
    return found


def table(found: Sequence[ShownRow], stale: Stale) -> str:
    """One line per row."""
    lines = ["| what | measured | to its reference, in the same run | commit | command |", "|---|---|---|---|---|"]
    return "\n".join([*lines, *(_line(each, stale) for each in found)])


def _line(found: ShownRow, stale: Stale) -> str:
    row, entry = found
    pairs = list(zip(row.figures, numbers(entry, row), strict=True))
    plain = [pair for pair in pairs if not (pair[0].is_ratio and len(pairs) > 1)]
    shown = ", ".join(figure.show.format(n.value * figure.scale) for figure, n in plain if n.value is not None)
    ratios = "; ".join(
        f"{_digits(number.ratio)} times {figure.reference.what}"
        for figure, number in pairs
        if figure.reference is not None and number.ratio is not None
    )
    commit = (_NOT_AGAIN if stale(entry, row) else "") + f"`{entry['commit'][:7]}`, {entry['date'][:10]}"
    return f"| {row.what} | {shown} | {ratios} | {commit} | `{entry['command']}` |"


def _digits(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100.0 else f"{ratio:.3g}"


def machines(found: Sequence[ShownRow]) -> str:
    """The machines on which the rows were measured."""
    by_machine: dict[str, list[str]] = {}
    for row, entry in found:
        by_machine.setdefault(_machine(entry["machine"]), []).append(row.name)
    if len(by_machine) == 1:
        return f"All rows: {next(iter(by_machine))}."
    return "\n".join(f"{', '.join(names)}: {machine}." for machine, names in by_machine.items())


def _machine(machine: dict[str, Any]) -> str:
    kernel, gibibytes = machine["kernel"].partition("-")[0], machine["memory_bytes"] / 2**30
    return (
        f"{machine['cpu']}, {machine['cores']} cores, {gibibytes:.0f} GiB, Linux {kernel}, {machine['system']}, "
        f"Python {machine['python']}"
    )


def times(entries: Entries) -> str:
    """Saturation relative to the paper's two figures, as text."""
    found = chosen(entries, [row for row in ROWS if row.name == "saturation-lean"])
    if not found:
        return ""
    samples = numbers(found[0].entry, found[0].row)[0].value or 0.0
    rerun = json.loads(_RERUN.read_text())
    found_again = [each for each in rerun["figures"]["fig10"] if each["what"].startswith("samples/s of")]
    stored, full = (each["baseline"] for each in found_again)
    told = (
        f"{samples / 1e6:.1f} million samples/s are {samples / _PAPER:,.0f} times what the paper's database took "
        f"({_PAPER:,} samples/s, hardware of 2011). The paper's own design, rerun on a machine of this kind, stored "
        f"{stored} samples/s with the most probes that were tried; by its CPU a full core would store {full} "
        f"(`{rerun['commit'][:7]}`, docs/paper.md). Such machines differ by more than twice between days."
    )
    return textwrap.fill(told, 120)


def parts(entries: Entries, stale: Stale) -> dict[str, dict[str, str]]:
    """Page -> part -> text."""
    every = chosen(entries)
    front = [each for each in every if each.row.front]
    return {
        "README.md": {"front": f"{table(front, stale)}\n\n{machines(front)}\n\n{times(entries)}"},
        "docs/results.md": {"all": f"{table(every, stale)}\n\n{machines(every)}\n\n{times(entries)}"},
    }


def written(page: str, texts: dict[str, str]) -> str:
    """A page with its parts replaced. Raises DataError if it has no marks for one."""
    for name, text in texts.items():
        begin = _BEGIN.format(name)
        before, marked, rest = page.partition(begin)
        _, ended, after = rest.partition(_END)
        if not marked or not ended:
            raise DataError(f"a page has no {begin} … {_END}")
        page = f"{before}{begin}\n{text}\n{_END}{after}"
    return page


def unmarked(page: str) -> str:
    """A page without the marks of rows not measured again: they come and go with every commit."""
    return page.replace(_NOT_AGAIN, "")


def write(entries: Entries, stale: Stale, root: Path = ROOT) -> list[str]:
    """Write all pages; returns those that changed."""
    changed = []
    for name, texts in parts(entries, stale).items():
        before = (root / name).read_text()
        after = written(before, texts)
        if after != before:
            (root / name).write_text(after)
            changed.append(name)
    return changed
