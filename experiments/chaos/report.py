"""Report of a chaos run, as a JSON document and as text."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

from acquisition.snapshot.reconcile.books import totals as totals_of
from experiments.chaos.fault_runner import Course
from experiments.chaos.observer import Seen
from experiments.chaos.options import Options
from experiments.chaos.run import Outcome
from experiments.harness.outcome import document as document_of
from experiments.harness.quantiles import percentiles


def document(argv: list[str], options: Options, outcome: Outcome, directory: str) -> dict[str, Any]:
    """All findings."""
    seconds = options.seconds
    made = sum(note.samples for notes in outcome.logs.values() for note in notes)
    frames = sum(map(len, outcome.logs.values()))
    findings = outcome.findings
    figures = {
        "seed": options.seed,
        "seconds": seconds,
        "samples_made": made,
        "samples_made_per_second": round(made / seconds),
        "frames_made": frames,
        "ticks_missed": sum(report["missed"] for report in outcome.reports),
        "balance": _balance(outcome),
        "entities_compared": findings.entities if findings else 0,
        "samples_compared": findings.samples if findings else 0,
        "mismatches": findings.mismatches if findings else None,
        "worst_difference": round(findings.worst, 4) if findings else None,
        "archive": outcome.archived._asdict() if outcome.archived else None,
        "freshness_ms": percentiles([value for seen in outcome.seen for value in seen.fresh_ms]),
        "drain_seconds": round(outcome.drain_seconds, 2),
        "faults": _by_kind(outcome),
        **_of_scenario(options, outcome),
        "courses": [_course(course, outcome) for course in outcome.courses],
        "logs": directory,
    }
    return document_of("chaos", argv, outcome.failures, figures)


def format_text(found: dict[str, Any]) -> list[str]:
    """The document as text."""
    freshness, balance = found["freshness_ms"], found["balance"]
    rows = [
        f"made      {found['samples_made']:,} samples in {found['frames_made']:,} frames, "
        f"{found['ticks_missed']} ticks missed by frozen generators",
        "balance   " + ", ".join(f"{value:,} {name}" for name, value in balance.items()),
        f"values    {found['samples_compared']:,} samples of {found['entities_compared']:,} entities compared, "
        f"{found['mismatches']} differ, worst {found['worst_difference']} of what is allowed",
        *_archive_lines(found["archive"]),
        "freshness " + ", ".join(f"{name} {value} ms" for name, value in freshness.items()),
        f"drained   in {found['drain_seconds']} s",
        "",
        f"{'fault':20} made skipped  recovered within, longest silence of any host (s)",
    ]
    rows += [
        f"{kind:20} {row['made']:4} {row['skipped']:7}  {row['longest_recovery']!s:>8} {row['longest_silence']!s:>8}"
        for kind, row in found["faults"].items()
    ]
    rows += _answer_lines(found)
    return [*rows, "", "everything held" if found["passed"] else f"logs are kept in {found['logs']}"]


def _of_scenario(options: Options, outcome: Outcome) -> dict[str, Any]:
    """Figures that only scenarios have."""
    if not options.scenario:
        return {}
    return {"scenario": options.scenario, "answers": outcome.answers, "overload": outcome.overload}


def _answer_lines(found: dict[str, Any]) -> list[str]:
    if "scenario" not in found:
        return []
    lines = [""]
    if found["overload"]:
        lines.append("overload  " + ", ".join(f"{value} {name}" for name, value in found["overload"].items()))
    lines.append(f"{'fault':20}{'surface':<26}{'answers':>8}{'down':>6}{'calm':>6}  last word")
    for fault, surfaces in found["answers"].items():
        for name, row in sorted(surfaces.items()):
            counts = "".join(f"{row[key]:>{width}}" for key, width in (("answers", 8), ("down", 6), ("calm", 6)))
            lines.append(f"{fault:20}{name:<26}{counts}  {row['told'][:150]}")
    return lines


def _archive_lines(archive: dict[str, Any] | None) -> list[str]:
    if archive is None:
        return []
    return [
        f"archive   {archive['cells']:,} figures of minutes compared, of {archive['samples']:,} samples; "
        f"{archive['missing']:,} are missing, {archive['gap']:,} by its own account; "
        f"{archive['left_out']:,} of clocks that were far off not compared"
    ]


def _balance(outcome: Outcome) -> dict[str, int]:
    totals = totals_of(outcome.books.accounts if outcome.books else [])
    samples, frames = ("made", "applied", "invalid", "lost", "pending"), ("resent", "duplicate", "refused")
    return {
        **{f"samples_{name}": getattr(totals, name) for name in samples},
        "frames_applied": totals.frames,
        **{f"frames_{name}": getattr(totals, f"{name}_frames") for name in frames},
    }


def _by_kind(outcome: Outcome) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for kind, count in sorted(Counter(course.fault.kind for course in outcome.courses).items()):
        rows = [_course(course, outcome) for course in outcome.courses if course.fault.kind == kind]
        made = [row for row in rows if not row["skipped"]]
        found[kind] = {
            "made": len(made),
            "skipped": count - len(made),
            "longest_recovery": max((row["recovery"] for row in made if row["recovery"] is not None), default=None),
            "longest_silence": max((row["silence"] for row in made if row["silence"] is not None), default=None),
        }
    return found


def _course(course: Course, outcome: Outcome) -> dict[str, Any]:
    """``recovery``: seconds from the start of healing until no host is silent. ``silence``: seconds with a silent host
    from the fault until then. Faults overlap: others may have prolonged both."""
    row: dict[str, Any] = {
        **course.fault._asdict(),
        "made_at": round(course.made - outcome.began, 2) if course.made else None,
        "healed_after": round(course.healed - course.healing, 2) if course.healed else None,
        "skipped": course.skipped,
        "failed": course.failed,
        "recovery": None,
        "silence": None,
    }
    if course.healing:
        well = _well_at(outcome.seen, course.healing)
        row["recovery"] = round(well - course.healing, 2) if well is not None else None
        row["silence"] = round(_silence(outcome.seen, course.made, well or course.healing), 2)
    return row


def _well_at(seen: Sequence[Seen], since: float) -> float | None:
    return next((one.at for one in seen if one.at >= since and not one.silent), None)


def _silence(seen: Sequence[Seen], since: float, until: float) -> float:
    return sum(later.at - one.at for one, later in itertools.pairwise(seen) if since <= one.at <= until and one.silent)
