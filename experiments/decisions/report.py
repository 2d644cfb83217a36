"""Report: summary on the screen, and tables of docs/detection.md."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from acquisition.errors import DataError
from experiments.decisions.training import TARGET_SECONDS
from experiments.decisions.watch import RAW

PAGE = Path(__file__).resolve().parents[2] / "docs" / "detection.md"
_BEGIN, _END = "<!-- {name}: begin -->", "<!-- {name}: end -->"

_DELAYS, _FALSE = ("step", "noisy step", "ramp", "bursts"), ("noise", "faults")  #: loads of the table of detection

Document = dict[str, Any]
Row = dict[str, Any]


def failures(document: Document) -> list[str]:
    """Which targets the default rule misses on the first test seed: 95% of the steps detected within 5 s after onset,
    no false alarm in noise."""
    watch = document["default"]["watch"]
    step = document["target"][f"{watch}: step"]["first seed"]
    noise = document["target"][f"{watch}: noise"]["first seed"]
    found = []
    if noise["false_alarms"]:
        found.append(f"{noise['false_alarms']} false alarms in {noise['host_hours']:g} host-hours of noise")
    delays = step["delay_seconds"]
    if step["missed"] or delays is None:
        found.append(f"{step['missed']} of {step['overloads']} steps were not noticed")
    elif delays["p95"] > TARGET_SECONDS:
        found.append(f"95% of the steps were detected within {delays['p95']:g} s, not {TARGET_SECONDS:g}")
    return found


def summary(document: Document) -> str:
    """The tables for a terminal."""
    parts = [f"{name}\n{text}" for name, text in tables(document).items()]
    told = "\n".join(f"MISSED: {failure}" for failure in document["failures"]) or "the targets are met"
    return "\n\n".join([*parts, told])


def write(document: Document, page: Path = PAGE) -> None:
    """Replace the tables of the page. Raises DataError when it has no place for one."""
    text = page.read_text()
    for name, table in tables(document).items():
        begin, end = _BEGIN.format(name=name), _END.format(name=name)
        if begin not in text or end not in text:
            raise DataError(f"{page}: there is no place for the table {name}: no line {begin} or {end}")
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}\n{table}\n{end}{rest.partition(end)[2]}"
    page.write_text(text)


def quoted(document: Document) -> Document:
    """The document with the rows that the tables quote: of days the default rule, how raw values and slow sampling
    compare, and both bounds; of detection the synthetic loads."""
    columns = _columns(document)
    control = [
        row
        for row in document["control"]
        if not row["load"].startswith("day ") or (row["rule"], row["watch"]) in columns
    ]
    detection = [row for row in document["detection"] if row["load"] in (*_DELAYS, *_FALSE)]
    return {**document, "detection": detection, "control": control}


def tables(document: Document) -> dict[str, str]:
    """All tables as Markdown, by name."""
    made = {
        "target": target_table(document),
        "detection": detection_table(document),
        "correlation": correlation_table(document),
        "control": control_table(document, ["noise", "bursts", "mixed"]),
    }
    days = [f"day {name}" for name in document["days"]]
    if days:
        made["days"] = days_table(document, days)
    if "recording" in document:
        made["recorded"] = control_table(document, ["recorded"])
    return made


def target_table(document: Document) -> str:
    """The default rule on the first test seed and on all."""
    rows = []
    for name, both in document["target"].items():
        for which, each in both.items():
            rows.append([name, which, f"{each['host_hours']:g}", _delays(each), _in_time(each), each["false_alarms"]])
    heads = ["", "", "host-hours", "delay p50 / p95 / max, s", f"detected within {TARGET_SECONDS:g} s", "false alarms"]
    return markdown(heads, rows)


def detection_table(document: Document) -> str:
    """Per rule and way of watching: delays of steps, ramps and bursts, false alarms in noise and with faults."""
    rows = []
    for rule, watch in _pairs(document["detection"]):
        by_load = {row["load"]: row for row in document["detection"] if (row["rule"], row["watch"]) == (rule, watch)}
        rows.append(
            [rule, watch]
            + [_delays(by_load[name]) + _part_missed(by_load[name]) for name in _DELAYS]
            + [f"{by_load[name]['false_alarms_per_host_hour']:.3g}" for name in _FALSE]
            + [by_load["noisy step"]["alarms"]]
        )
    heads = ["rule", "watched", "step", "noisy step", "ramp", "bursts", "false/h noise", "false/h faults", "alarms"]
    return markdown(heads, rows)


def correlation_table(document: Document) -> str:
    """The default rule and raw values over the correlation of the noise."""
    rows = []
    for phi in sorted({row["phi"] for row in document["correlation"]}):
        for watch in dict.fromkeys(row["watch"] for row in document["correlation"]):
            by_load = {
                row["load"]: row for row in document["correlation"] if (row["phi"], row["watch"]) == (phi, watch)
            }
            noise = by_load["noise"]
            quiet = f"{noise['false_alarms']} in {noise['host_hours']:g} h"
            rows.append([f"{phi:g}", watch, _delays(by_load["step"]), _delays(by_load["noisy step"]), quiet])
    return markdown(["phi", "watched", "step", "noisy step", "false alarms in noise"], rows)


def control_table(document: Document, loads: Sequence[str]) -> str:
    """Per rule and way of watching, for each load: migrations (needless, flaps), seconds of overload per host-hour."""
    rows = []
    for rule, watch in _pairs(document["control"]):
        cells: list[Any] = [rule, watch]
        for load in loads:
            (row,) = [each for each in _of(document, load) if (each["rule"], each["watch"]) == (rule, watch)]
            cells += [_moves(row), f"{row['overload_seconds_per_host_hour']:.1f}"]
        rows.append(cells)
    heads = [head for load in loads for head in (f"{load}: migrations (needless, flaps)", "overload s/h")]
    return markdown(["rule", "watched", *heads], rows)


def days_table(document: Document, days: Sequence[str]) -> str:
    """The default rule on each day, beside raw values, slow sampling, and what nobody and an oracle make of it."""
    columns = _columns(document)
    rows = []
    for day in days:
        by_method = {(row["rule"], row["watch"]): row for row in _of(document, day)}
        cells = [
            f"{by_method[each]['overload_seconds_per_host_hour']:.1f}; {_moves(by_method[each])}" for each in columns
        ]
        rows.append([day.removeprefix("day "), *cells])
    heads = [f"{one} {watch}".removesuffix(" -") for one, watch in columns]
    return markdown(["day", *heads], rows)


def _columns(document: Document) -> list[tuple[str, str]]:
    """Rule and way of watching of each column of the table of days."""
    default, rule = document["default"]["watch"], document["default"]["rule"]
    columns = [("nobody", "-"), (rule, "5 min"), (rule, "10 s"), (rule, RAW.name), (rule, default), ("oracle", "-")]
    known = {(row["rule"], row["watch"]) for row in document["control"]}
    return [column for column in columns if column in known]


def markdown(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table."""
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows)])


def _of(document: Document, load: str) -> list[Row]:
    return [row for row in document["control"] if row["load"] == load]


def _pairs(rows: Iterable[Row]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((row["rule"], row["watch"]) for row in sorted(rows, key=lambda row: row["rule"])))


def _delays(row: Row) -> str:
    delays = row["delay_seconds"]
    return "-" if delays is None else f"{delays['p50']:.1f} / {delays['p95']:.1f} / {delays['max']:.1f}"


def _in_time(row: Row) -> str:
    return f"{row['in_time']} of {row['overloads']}{_part_missed(row)}"


def _part_missed(row: Row) -> str:
    return f" ({row['missed']} missed)" if row["missed"] else ""


def _moves(row: Row) -> str:
    return f"{row['migrations']} ({row['needless']}, {row['flaps']})"
