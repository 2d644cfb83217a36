"""Tables of the comparison, as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def benefit(document: dict[str, Any]) -> list[str]:
    """The table *Benefit*: a row for each figure."""
    found = document["benefit"]
    rows = [
        ("onset to answer p50 / p95, s (missed)", _delay),
        ("false alarms per host-hour (95% interval)", _false),
        ("CPU of a host, % of a core", lambda each: f"{each['host_cpu_percent']:.2f}"),
        ("memory of a host, MB", lambda each: _mega(each["host_memory_bytes"])),
        ("bytes per host and second", lambda each: f"{each['host_bytes_per_second']:,}"),
        ("CPU of the store, % of a core", lambda each: f"{each['store_cpu_percent']:.1f}"),
        ("memory of the store, MB", lambda each: _mega(each["store_memory_bytes"])),
        ("disk of the store, MB", lambda each: _mega(each["store_disk_bytes"])),
    ]
    return markdown(["Benefit", *found], ([name, *map(cell, found.values())] for name, cell in rows))


def truth(document: dict[str, Any]) -> list[str]:
    """The table *Truth*: a row for each fault; wrong answers, and in brackets those without a value."""
    rows = []
    systems: list[str] = []
    for row in document["truth"].values():
        counts = row["counts"]
        systems = list(counts)
        asked = max(each["asked"] for each in counts.values())
        rows.append([row["title"], asked, *(f"{each['wrong']} ({each['nothing']})" for each in counts.values())])
    return markdown(["Truth: wrong answers (none given)", "asked", *systems], rows)


def markdown(heads: Sequence[object], rows: Iterable[Sequence[object]]) -> list[str]:
    """The lines of a table."""
    return [f"| {' | '.join(map(str, row))} |" for row in (heads, ["---"] * len(heads), *rows)]


def _delay(each: dict[str, Any]) -> str:
    delay, missed = each["delay_seconds"], each["missed"]
    told = f"{delay['p50']:.1f} / {delay['p95']:.1f}" if delay else "none"
    return f"{told} ({missed} of {each['overloads']})" if missed else told


def _false(each: dict[str, Any]) -> str:
    rates = each["false_alarms_per_host_hour"]
    return f"{rates[0]:.1f} ({rates[1]:.1f} to {rates[2]:.1f})" if rates else "unknown"


def _mega(count: int) -> str:
    return f"{count / 1e6:.1f}"
