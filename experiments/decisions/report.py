"""Tables of the evaluation, as the terminal and docs/detection.md show them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from acquisition.errors import DataError
from experiments.decisions.scores import Interval
from experiments.decisions.truth import KINDS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "detection.md"
Row = dict[str, Any]


def lines(document: Row) -> list[str]:
    """Void rows, a table of delays and false alarms, and a table of the closed loop."""
    void = [f"{name}: void, {reason}" for name, reason in document["void"].items()]
    return [*void, "", *watching_table(document["watching"]), "", *closed_table(document["closed"])]


def write(document: Row, page: Path = PAGE) -> None:
    """Replace the tables of the page. Raises DataError if the markers of one are missing."""
    text = page.read_text()
    for name, table in tables(document).items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        if begin not in text or end not in text:
            raise DataError(f"{page}: no place for the table {name}: no line {begin} or {end}")
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    page.write_text(text)


def tables(document: Row) -> dict[str, str]:
    """The tables of the page by name: the first rule in full, all judges side by side."""
    watching, closed = document["watching"], document["closed"]
    first = watching[0]["judge"]
    ours = [row for row in watching if row["judge"] == first]
    loops = [{**row, "judge": row["judge"] if row["choosing"] == "ours" else f"{row['judge']}, own"} for row in closed]
    made = {
        "ours": watching_table(ours),
        "detectors": _beside(
            watching,
            lambda row: (
                f"{_second(row['hot_p95'][0]) if has_steps(row) else '-'}; "
                f"{text((row['level_false_later'][0], None, None))}"
            ),
        ),
        "loop": _beside(loops, lambda row: f"{row['cost'][0]:.0f} ({row['moves'][0]:.3g})"),
    }
    void = [f"Void: {', '.join(f'{name} ({reason})' for name, reason in document['void'].items())}."]
    return {name: "\n".join([*table, *(["", *void] if document["void"] else [])]) for name, table in made.items()}


def _beside(rows: Sequence[Row], cell: Callable[[Row], str]) -> list[str]:
    """One line per scenario, one column per judge."""
    judges = list(dict.fromkeys(row["judge"] for row in rows))
    found = {(row["scenario"], row["judge"]): cell(row) for row in rows}
    scenarios = dict.fromkeys(row["scenario"] for row in rows)
    return markdown(["scenario", *judges], [[name, *(found[name, judge] for judge in judges)] for name in scenarios])


def watching_table(rows: Sequence[Row]) -> list[str]:
    """Per scenario and judge: delays of steps in seconds, false alarms per 100 host-hours with their intervals."""
    heads = ["scenario", "judge", "suspect p50 / p95", "hot p50 / p95", "steps (missed, hot before)"]
    for kind in KINDS:
        heads += [f"false by {kind}, first hour", "later", "of the time", f"overloads by {kind} (missed)"]
    made = []
    for row in rows:
        cells = [row["scenario"], row["judge"], *(_delays(row, word) for word in ("suspect", "hot"))]
        cells.append(f"{row['hot_steps']} ({row['hot_missed']}, {row['hot_before']})")
        for kind in KINDS:
            cells += [text(row[f"{kind}_false_first_hour"]), text(row[f"{kind}_false_later"])]
            cells.append(f"{row[f'{kind}_false_share']:.2%}")
            cells.append(f"{row[f'{kind}_overloads']} ({row[f'{kind}_overloads_missed']})")
        made.append(cells)
    return markdown(heads, made)


def closed_table(rows: Sequence[Row]) -> list[str]:
    """Per scenario, judge and way of choosing: means per run with their intervals."""
    heads = [
        "scenario", "judge", "choosing", "moves", "needless by level", "by harm", "overload s by level", "by harm",
        "guests wait s", "waiting + 10 s per move",
    ]  # fmt: skip
    names = ("moves", "needless_level", "needless_harm", "overload_level", "overload_harm", "waiting_seconds", "cost")
    return markdown(
        heads,
        [[row["scenario"], row["judge"], row["choosing"], *(text(row[name]) for name in names)] for row in rows],
    )


def text(value: Interval | Sequence[float | None]) -> str:
    """A figure with the bounds of its interval, which may be open."""
    figure, low, high = value
    if figure is None:
        return "-"
    return f"{figure:.4g}" if low is None else f"{figure:.4g} [{low:.4g}, {'∞' if high is None else f'{high:.4g}'}]"


def has_steps(row: Row, word: str = "hot") -> bool:
    """Whether a delay was measured, be it infinite: on some host that was not hot (or suspect) before its step."""
    return bool(row[f"{word}_steps"] > row[f"{word}_before"])


def _delays(row: Row, word: str) -> str:
    if not has_steps(row, word):
        return "-"
    p95, low, high = (_second(value) for value in row[f"{word}_p95"])
    return f"{_second(row[f'{word}_p50'][0])} / {p95}{f' [{low}, {high}]' if p95 != '∞' else ''}"


def _second(value: float | None) -> str:
    return "∞" if value is None else f"{value:.1f}"


def markdown(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """A table."""
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows)]
