"""What a demo measured: the document of ``--json``, the closing lines, and the rows of the view."""

from __future__ import annotations

from typing import Any

from pipeline import Pipeline

from acquisition.snapshot.books import Totals
from filters.view import Books, ShardLine


def document(pipeline: Pipeline) -> dict[str, Any]:
    """Everything measured, as plain values; None where nothing could be measured.

    ``samples_in`` is the probe's own count; of these ``samples_smoothed`` were valid and
    are in the averages, ``samples_invalid`` were kept with a code, ``samples_pending`` were still
    on their way at the end. CPU is in percent of one core, from the first smoothed value
    on; memory is PSS; ``freshness_ms`` includes the reader's polling period of 5 ms.
    """
    totals = pipeline.totals
    blocks = pipeline.snapshot.blocks if pipeline.snapshot is not None else ()
    freshness = pipeline.freshness()
    probe = pipeline.account.get("probe", {})
    return {
        "seconds": round(pipeline.seconds, 3),
        "hosts": len({block.host_id for block in blocks}),
        "entities": sum(block.shape[0] for block in blocks if block.has_values),
        "samples_in": totals.made if totals else None,
        "samples_smoothed": totals.applied - totals.invalid if totals else None,
        "samples_invalid": totals.invalid if totals else None,
        "samples_pending": totals.pending if totals else None,
        "samples_lost": totals.lost if totals else None,
        "freshness_ms": {key: freshness[key] for key in ("p50", "p99")},
        "freshness_frames": freshness["frames"],
        "first_value_seconds": pipeline.first_value_seconds,
        "shards": [
            {
                "address": row.address,
                "pid": row.pid,
                "core": row.core,
                "pinned": row.pinned,
                "frames": row.frames,
                "memory_bytes": row.memory_bytes,
            }
            for row in pipeline.shard_rows
        ],
        "probe": {
            "cpu_percent": pipeline.probe_usage.cpu_percent,
            "pss_bytes": pipeline.probe_usage.pss_bytes,
            "children_cpu_percent": pipeline.probe_usage.children_cpu_percent,
            "ticks": probe.get("ticks"),
            "missed_ticks": probe.get("missed_ticks"),
        },
        "filter": {
            "cpu_percent": pipeline.filter_usage.cpu_percent,
            "pss_bytes": pipeline.filter_usage.pss_bytes,
        },
        "redis": {"version": pipeline.shards.redis.version, "source": pipeline.shards.redis.source},
        "sources": sources(pipeline),
        "restarts": {child.name: child.restarts for child in pipeline.children},
    }


def sources(pipeline: Pipeline) -> list[str]:
    """What each resource set was read from, as the probe says: ``host: vmstat``."""
    return [f"{name}: {source}" for name, source in sorted(pipeline.account.get("sources", {}).items())]


def balanced(totals: Totals | None) -> bool:
    """Whether something was made, and all of it is accounted for."""
    return totals is not None and totals.made > 0 and not totals.unbalanced and not totals.unreported


def summary(result: dict[str, Any]) -> str:
    """The document in three lines."""
    fresh, probe, filter_ = result["freshness_ms"], result["probe"], result["filter"]
    return "\n".join(
        (
            f"{result['seconds']:.1f} s: {_count(result['samples_in'])} samples made of {result['entities']} entities,"
            f" {_count(result['samples_smoothed'])} smoothed, {_count(result['samples_invalid'])} invalid,"
            f" {_count(result['samples_pending'])} pending, {_count(result['samples_lost'])} lost",
            f"freshness p50 {_count(fresh['p50'])} ms, p99 {_count(fresh['p99'])} ms"
            f" over {result['freshness_frames']} frames; sources {', '.join(result['sources']) or 'unknown'}",
            f"probe {probe['cpu_percent']:.2f}% of a core and {probe['pss_bytes'] / 1e6:.1f} MB,"
            f" its tools {probe['children_cpu_percent']:.2f}%;"
            f" filter {filter_['cpu_percent']:.2f}% and {filter_['pss_bytes'] / 1e6:.1f} MB",
        )
    )


def shard_lines(pipeline: Pipeline) -> list[ShardLine]:
    """The shards as the view shows them."""
    return [
        ShardLine(
            row.address,
            row.core,
            row.pinned,
            pipeline.loads.get(row.address),
            row.memory_bytes,
            row.memory_limit_bytes,
            row.frames,
            row.problem,
        )
        for row in pipeline.shard_rows
    ]


def view_books(pipeline: Pipeline) -> Books:
    """The books as the view shows them."""
    totals = pipeline.totals
    if totals is None:
        return Books(sources=tuple(sources(pipeline)))
    return Books(totals.made, totals.applied, totals.invalid, totals.pending, totals.lost, tuple(sources(pipeline)))


def _count(number: float | None) -> str:
    return "?" if number is None else f"{number:,}"
