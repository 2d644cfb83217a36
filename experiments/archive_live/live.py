"""Live run: the whole pipeline with an archiver beside it."""

from __future__ import annotations

import argparse
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sqlalchemy import text

from acquisition.errors import UnavailableError
from experiments.archive_live import server
from experiments.harness import pipeline, usage
from experiments.harness.options import Options
from experiments.harness.pipeline import Pipeline
from experiments.processes.control import Child, python
from filters.archive.database.engine import make_engine, parse_url

_MINUTE = 60


def live(options: argparse.Namespace, url: str, place: Path) -> dict[str, Any]:
    """The pipeline with an archiver beside it."""
    load = Options(hosts=options.hosts, entities=options.entities, metrics=options.metrics, longest_run=60)
    with pipeline.running(load, place) as parts:
        parts.tell("start")
        parts.run(load.warmup)
        fresh: dict[str, list[dict[str, Any]]] = {"without": [], "with": []}
        found: dict[str, Any] = {}
        told: dict[str, Any] = {}
        for turn in range(options.turns):
            fresh["without"].append(_freshness(parts, 15.0))
            with _archiver(url, parts, place) as archiver:
                if turn < options.turns - 1:
                    fresh["with"].append(_freshness(parts, 15.0))
                else:
                    parts.measure_freshness()
                    found = _watch(options, url, parts, archiver)
                    fresh["with"].append(parts.freshness()["freshness_ms"])
                    os.kill(archiver.pid, signal.SIGTERM)
                    told = archiver.receive(60.0)
        found |= {name: told[name] for name in ("applied_after_ms", "applied_after_most_ms")}
        found["freshness_ms"] = fresh
        found["samples_made"] = sum(report["counts"]["samples"] for report in parts.finish())
        with _archiver(url, parts, place, "--finish", "--seconds", "5") as archiver:
            found["archiver"] = archiver.receive(60.0)
    counts = found["archiver"]
    found["missing"] = found["samples_made"] - counts["archived"] - counts["gap"]
    return found


def _freshness(parts: Pipeline, seconds: float) -> dict[str, Any]:
    parts.measure_freshness()
    parts.run(seconds)
    quantiles: dict[str, Any] = parts.freshness()["freshness_ms"]
    return quantiles


@contextmanager
def _archiver(url: str, parts: Pipeline, place: Path, *more: str) -> Iterator[Child]:
    addresses = ",".join(str(address) for address in parts.shards.addresses)
    arguments = ["archive", "run", "--json", "--archive", url, "--shards", addresses, *more]
    with (
        (place / "archiver.log").open("ab") as log,
        Child("archiver", python("acquisition", *arguments), stderr=log) as it,
    ):
        yield it


def _watch(options: argparse.Namespace, url: str, parts: Pipeline, archiver: Child) -> dict[str, Any]:
    """When the rows of each minute become readable, and the cost from the first to the last."""
    engine = make_engine(parse_url(url))
    minute = (int(time.time()) // _MINUTE + 1) * _MINUTE
    readable, spent = [], []
    for wanted in range(minute, minute + (options.minutes + 1) * _MINUTE, _MINUTE):
        while _rows(engine, wanted) < options.hosts:
            archiver.check()
            if time.time() > wanted + 3 * _MINUTE:
                raise UnavailableError(f"the minute {wanted} is not readable after three")
            parts.run(0.1)
        readable.append(round(time.time() - wanted - _MINUTE, 2))
        spent.append((time.monotonic(), usage.cpu_seconds(archiver.pid), server.cpu_seconds(engine)))
    engine.dispose()
    seconds, of_archiver, of_server = np.subtract(spent[-1], spent[0]).tolist()
    status = dict(line.split(":", 1) for line in Path(f"/proc/{archiver.pid}/status").read_text().splitlines())
    return {
        "minute_readable_after_seconds": readable,
        "archiver_cores": round(of_archiver / seconds, 4),
        "server_cores": round(of_server / seconds, 4),
        "archiver_rss_mb": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "archiver_rss_most_mb": round(int(status["VmHWM"].split()[0]) / 1024, 1),
    }


def _rows(engine: Any, minute: int) -> int:
    with engine.connect() as connection:
        found = connection.execute(text(f"SELECT count(DISTINCT host) FROM minutes WHERE minute = {minute}"))
        return int(found.scalar_one())
