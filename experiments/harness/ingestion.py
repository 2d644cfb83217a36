"""Ingestion run on fresh shards: rates, costs, freshness, books, values.

Values are verified.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from experiments.harness import balance, machine, pipeline, shard_counts, usage
from experiments.harness.options import Options
from experiments.harness.pipeline import Moment
from experiments.harness.verification import Verdict


def measure(options: Options) -> dict[str, Any]:
    """One run on fresh shards. Raises ShardpulseError if a part does not start, or ends."""
    with tempfile.TemporaryDirectory(prefix="shardpulse-ingest-") as name:
        directory = Path(name)
        with pipeline.running(options, directory) as parts:
            parts.tell("start")
            parts.run(options.warmup)
            parts.measure_freshness()
            before = parts.mark()
            parts.run(options.seconds)
            after = parts.mark()
            freshness = parts.freshness()
            memory = usage.memory(parts.roles)
            reports = parts.finish()
            made = sum(report["counts"]["samples"] for report in reports)
            books = balance.read(parts.cluster)
            accounts = balance.balance(books, made)
            snapshot_seconds, verdict = parts.verify(reports)
            parts.stop_filters()
        found = pipeline.profiles(options, directory)
    figures = {
        **_rates(before, after),
        **freshness,
        **accounts,
        "cpu_cores": _rounded(usage.cores(before.usage, after.usage)),
        "shard_cores": _shard_cores(before, after),
        "cpu_seconds_per_million_samples": _cost(before, after),
        "memory_bytes": memory,
        "snapshot_seconds": snapshot_seconds,
        "checked_entities": verdict.entities,
        "checked_samples": verdict.samples,
        "mismatches": verdict.mismatches,
        "worst_difference": round(verdict.worst, 4),
    }
    failures = what_failed(options, figures, reports, verdict, balance.incomplete(books))
    return {
        "passed": not failures,
        "failures": failures,
        "figures": figures,
        "machine": machine.describe(),
        "profiles": found,
        "shard_commands": shard_counts.executed(before.shards, after.shards, after.usage.at - before.usage.at),
        "writers": _sum_accounts(reports),
    }


def _rates(before: Moment, after: Moment) -> dict[str, Any]:
    """Rates per second of the window. Stored samples are the shards' own count of entries times the samples of an
    average entry, tables included."""
    seconds = after.usage.at - before.usage.at
    frames = after.offered.frames - before.offered.frames
    offered = after.offered.samples - before.offered.samples
    stored = after.shards.stored_frames - before.shards.stored_frames
    smoothed = after.shards.applied - before.shards.applied
    applied_frames = after.shards.frames - before.shards.frames
    return {
        "seconds": round(seconds, 3),
        "samples_offered_per_second": round(offered / seconds),
        "samples_stored_per_second": round(stored * smoothed / max(1, applied_frames) / seconds),
        "samples_smoothed_per_second": round(smoothed / seconds),
        "frames_per_second": round(frames / seconds),
        "backlog_samples": after.offered.samples - after.shards.applied - after.shards.lost,
        "missed_ticks": after.offered.missed - before.offered.missed,
        "generator_lag_ms": round(after.offered.lag_seconds * 1000.0, 3),
        "received_bytes_per_second": round((after.shards.received_bytes - before.shards.received_bytes) / seconds),
        "shard_memory_bytes": after.shards.memory_bytes,
    }


def _cost(before: Moment, after: Moment) -> dict[str, float]:
    millions = max(1, after.shards.applied - before.shards.applied) / 1e6
    return {role: round((seconds - before.usage.cpu[role]) / millions, 5) for role, seconds in after.usage.cpu.items()}


def _shard_cores(before: Moment, after: Moment) -> dict[str, float]:
    """Cores that each shard used, by its place in slot order."""
    seconds = after.usage.at - before.usage.at
    pairs = zip(before.shard_seconds, after.shard_seconds, strict=True)
    return {str(place): round((last - first) / seconds, 4) for place, (first, last) in enumerate(pairs)}


def _rounded(values: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 4) for name, value in values.items()}


def what_failed(
    options: Options, figures: dict[str, Any], reports: list[dict[str, Any]], verdict: Verdict, incomplete: set[int]
) -> list[str]:
    """Why a run does not count, causes before consequences; empty if it does. ``incomplete`` are the hosts with values
    that cannot match the model, by their counts.
    """
    found = []
    if not all(report["drained"] for report in reports):
        pending = figures["samples_pending"]
        found.append(f"not everything was smoothed within {options.drain_seconds:g} s: {pending:,} samples are pending")
    errors = {name: count for name, count in sorted(_sum_accounts(reports).items()) if name.startswith("error_")}
    if any(errors.values()) and (options.lean or found):  # whole writers resend frames lost by an error
        told = ", ".join(f"{count:,} x {name.removeprefix('error_')}" for name, count in errors.items() if count)
        found.append(f"emulated hosts were refused: {told}")
    found += balance.problems(figures, options.overload)
    if figures["missed_ticks"] and not options.overload:
        found.append(f"the generator missed {figures['missed_ticks']} ticks: it is the bottleneck")
    if not figures["readings"]:
        found.append("the freshness reader read nothing")
    if verdict.mismatches:
        told = f"{verdict.mismatches} of {verdict.samples} samples differ from the scalar model"
        found += [f"{told}, {verdict.of_others(incomplete)} of them of hosts that lost nothing", *verdict.examples]
    return found


def _sum_accounts(reports: list[dict[str, Any]]) -> dict[str, float]:
    totals: dict[str, float] = {}
    for report in reports:
        for name, value in report["writers"].items():
            totals[name] = totals.get(name, 0) + value
    return totals
