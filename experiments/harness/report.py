"""The figures of a run as text for people."""

from __future__ import annotations

from typing import Any

from experiments.harness.profiler import format_profile

_HEADLINES = (
    "samples_offered_per_second",
    "samples_stored_per_second",
    "samples_smoothed_per_second",
    "frames_per_second",
    "backlog_samples",
    "samples_made",
    "samples_invalid",
    "samples_lost",
    "samples_duplicated",
    "missed_ticks",
)


def format_run(document: dict[str, Any]) -> str:
    """The summary document as a page of text."""
    machine = document["machine"]
    rows = [
        f"{document['command']}",
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, Python {machine['python']}, "
        f"redis-server {machine['redis_server']}, numpy {machine['packages']['numpy']}",
        f"commit {document['commit'] or 'unknown'}, {document['date']}, "
        + (f"medians of {document['repeats']} runs" if document["repeats"] > 1 else "one run"),
        "",
    ]
    rows += [f"{name:30} {document[name]:>16,}" for name in _HEADLINES]
    rows.append(_row("freshness_ms", document["freshness_ms"], "{:,.1f}"))
    rows.append(_row("cpu_cores", document["cpu_cores"], "{:.3f}"))
    rows.append(_row("cpu_seconds_per_million_samples", document["cpu_seconds_per_million_samples"], "{:.4f}"))
    rows.append(_row("memory_bytes", document["memory_bytes"], "{:,}"))
    rows.append(
        f"scalar model: {document['checked_samples']} samples of {document['checked_entities']} entities, "
        f"{document['mismatches']} differ, worst {document['worst_difference']:.3f} of what is allowed"
    )
    rows += [f"FAILED: {failure}" for failure in document["failures"]]
    if document["profiles"]:
        rows.append("commands that the shards executed (without their input and output)")
        rows += [
            f"  {figures['cores']:.4f} cores  {figures['calls_per_second']:>10,.0f}/s  {name}"
            for name, figures in document["shard_commands"].items()
        ]
    rows += [format_profile(role, profile) for role, profile in document["profiles"].items()]
    return "\n".join(rows)


def _row(name: str, values: dict[str, float | None], pattern: str) -> str:
    shown = (f"{key} {'-' if value is None else pattern.format(value)}" for key, value in values.items())
    return f"{name:30} {'  '.join(shown)}"
