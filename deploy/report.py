"""Report of the demo: ``--json`` document, closing lines and view rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from demo_view import Books, ShardLine
from pipeline import Pipeline

from acquisition.status.health import without_value


def document(pipeline: Pipeline) -> dict[str, Any]:
    """All measurements as plain values; None for what could not be measured.

    ``samples_in`` is the probe's own count. Of these, ``samples_smoothed`` were valid and
    are in the averages, ``samples_invalid`` failed a check and were kept with a code, ``samples_without_value`` have
    no value, as counted by a probe that was not restarted (otherwise both are unknown), and ``samples_pending`` were in
    transit at the end. CPU is in percent of one core, from the first smoothed value
    on; memory is PSS; ``freshness_ms`` includes the reader's polling period of 5 ms.
    ``samples_lost`` counts samples that exist nowhere any more, and those missing from the streams until the probe has
    resent them. ``books_balance``: made = before + smoothed + invalid + without value + lost + pending, and
    no two counts contradict each other.
    ``samples_lost_at_worst`` is the largest loss in any reading of the books, before
    ``frames_resent`` repaired it. ``missed_ticks`` includes ticks without a running probe.
    """
    totals = pipeline.totals if pipeline.totals is not None and pipeline.totals.made else None
    blocks = pipeline.snapshot.blocks if pipeline.snapshot is not None else ()
    freshness = pipeline.freshness()
    probe = pipeline.account.get("probe", {})
    without = _without_value(pipeline)
    return {
        "seconds": round(pipeline.seconds, 3),
        "hosts": len({block.host_id for block in blocks}) if totals else None,
        "entities": _entities(pipeline) if totals else None,
        "samples_in": totals.made if totals else None,
        "samples_smoothed": totals.applied - totals.invalid - without if totals and without is not None else None,
        "samples_invalid": totals.invalid if totals else None,
        "samples_without_value": without,
        "samples_pending": totals.pending - totals.missing if totals else None,
        "samples_lost": totals.lost + totals.missing if totals else None,
        "samples_lost_at_worst": pipeline.lost_at_worst if totals else None,
        "samples_before": totals.before if totals else None,
        "books_balance": pipeline.books.balanced if totals and pipeline.books else None,
        "frames_resent": pipeline.frames_resent if totals else None,
        "frames_refused": totals.refused_frames if totals else None,
        "frames_dropped_as_duplicates": totals.duplicate_frames if totals else None,
        "gaps_of_unknown_size": totals.gaps if totals else None,
        "freshness_ms": {key: freshness[key] for key in ("p50", "p99")},
        "freshness_frames": freshness["frames"],
        "first_value_seconds": pipeline.first_value_seconds,
        "shards": [
            row.document(("address", "pid", "core", "pinned", "frames", "memory_bytes")) for row in pipeline.shard_rows
        ],
        "probe": {
            "cpu_percent": pipeline.probe_usage.cpu_percent,
            "pss_bytes": pipeline.probe_usage.pss_bytes,
            "children_cpu_percent": pipeline.probe_usage.children_cpu_percent,
            "ticks": probe.get("ticks"),
            "missed_ticks": pipeline.missed_ticks,
        },
        "filter": {
            "cpu_percent": pipeline.filter_usage.cpu_percent,
            "pss_bytes": pipeline.filter_usage.pss_bytes,
            "step": pipeline.step.name,
            "step_reason": pipeline.step.reason,
        },
        "redis": {"version": pipeline.shards.redis.version, "source": pipeline.shards.redis.source},
        "sources": sources(pipeline),
        "archive": pipeline.archived._asdict() if pipeline.archived is not None else None,
        "restarts": pipeline.restarts,
    }


def sources(pipeline: Pipeline) -> list[str]:
    """Sources of each resource set, as reported by the probe: ``host: vmstat``."""
    return [f"{name}: {source}" for name, source in sorted(pipeline.account.get("sources", {}).items())]


def failures(pipeline: Pipeline) -> list[str]:
    """Failures, evaluated after the demo has settled; empty on success."""
    totals = pipeline.totals
    found = [f"shard {row.address} does not answer: {row.problem}" for row in pipeline.shard_rows if not row.answering]
    if pipeline.problem:
        found.append(f"the books cannot be read: {pipeline.problem}")
    if totals is None or not totals.made:
        return [*found, "no sample yet: nothing was measured (the first comes within an interval and a second)"]
    for name, verb in (("probe", "sampled"), ("filter", "applied")):
        if seconds := pipeline.stuck(name):
            found.append(f"the {name} had {verb} nothing for {seconds:.0f} s")
    if totals.pending > totals.missing:
        found.append(f"{totals.pending - totals.missing:,} samples are pending: the filter has not applied them")
    if not _entities(pipeline):
        found.append("no smoothed value can be read")
    if totals.lost + totals.missing:
        found.append(f"{totals.lost + totals.missing:,} samples are lost")
    if totals.unreported:
        found.append(f"the probe has not said what it made of {totals.unreported} resource sets")
    return found + [f"the books do not balance: {fault}" for fault in (pipeline.books.faults if pipeline.books else ())]


def _entities(pipeline: Pipeline) -> int:
    blocks = pipeline.snapshot.blocks if pipeline.snapshot is not None else ()
    return sum(block.shape[0] for block in blocks if block.has_values)


def summary(result: dict[str, Any]) -> str:
    """The document in four lines."""
    fresh, probe, filter_ = result["freshness_ms"], result["probe"], result["filter"]
    return "\n".join(
        (
            f"{result['seconds']:.1f} s: {_count(result['samples_in'])} samples made"
            f" of {_count(result['entities'])} entities,"
            f" {_count(result['samples_smoothed'])} smoothed, {_count(result['samples_invalid'])} invalid,"
            f" {_count(result['samples_without_value'])} without a value,"
            f" {_count(result['samples_pending'])} pending, {_count(result['samples_lost'])} lost"
            f" (at worst {_count(result['samples_lost_at_worst'])}, {_count(result['frames_resent'])} frames resent)",
            f"{freshness_text(fresh)} over {result['freshness_frames']} frames;"
            f" sources {', '.join(result['sources']) or 'unknown'}; {result['filter']['step']} step",
            f"probe {_count(probe['cpu_percent'])}% of a core and {_megabytes(probe['pss_bytes'])} MB,"
            f" its tools {_count(probe['children_cpu_percent'])}%;"
            f" filter {_count(filter_['cpu_percent'])}% and {_megabytes(filter_['pss_bytes'])} MB",
            _archive(result["archive"]),
        )
    )


def _archive(kept: dict[str, Any] | None) -> str:
    if kept is None:
        return "the archive has not begun, or its database could not be read in the end"
    place = kept["place"] if kept["stays"] else "gone with the demo; --archive PATH keeps it"
    return (
        f"the archive kept {_count(kept['invalid_samples'])} invalid samples in {_count(kept['episodes'])} episodes"
        f": {place}"
    )


def freshness_text(figures: Mapping[str, float | None]) -> str:
    """Age of samples when they become readable; nothing is measured before the first tick."""
    if figures["p50"] is None:
        return "freshness not measured yet"
    return f"freshness p50 {figures['p50']} ms, p99 {figures['p99']} ms"


def shard_lines(pipeline: Pipeline) -> list[ShardLine]:
    """The shards for the view."""
    return [ShardLine(row, pipeline.loads.get(row.address)) for row in pipeline.shard_rows]


def view_books(pipeline: Pipeline) -> Books:
    """The books for the view."""
    totals = pipeline.totals
    if totals is None:
        return Books(sources=tuple(sources(pipeline)))
    lost = totals.lost + totals.missing
    pending = totals.pending - totals.missing
    without = _without_value(pipeline)
    return Books(totals.made, totals.applied, totals.invalid, pending, lost, tuple(sources(pipeline)), without)


def _without_value(pipeline: Pipeline) -> int | None:
    """Samples without a value, counted by the probe since its start; None if it was restarted during the
    demo."""
    counts = None if pipeline.books is None else without_value(pipeline.books.statuses.values())
    return None if counts is None or pipeline.probe.restarts else sum(counts.values())


def loss_line(pipeline: Pipeline) -> str:
    """Line about samples lost temporarily and resent."""
    return f"at worst {pipeline.lost_at_worst:,} samples lost · {pipeline.frames_resent:,} frames resent"


def _megabytes(size: int | None) -> str:
    return "?" if size is None else f"{size / 1e6:.1f}"


def _count(number: float | None) -> str:
    return "?" if number is None else f"{number:,}"
