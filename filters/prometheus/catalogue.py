"""Catalogue of pipeline metric families: tables of docs/prometheus.md.

``python -m filters.prometheus.catalogue`` prints them.
"""

from __future__ import annotations

from collections.abc import Iterable

from filters.prometheus import entities, inputs, pipeline, samples, scrape, sets
from filters.prometheus.syntax import Family

_HEAD = "| series | labels | meaning |\n|---|---|---|\n"


def families() -> dict[str, list[Family]]:
    """Every family except those of the metrics themselves, by heading."""
    return {
        "The answer": [
            scrape.BUILD, scrape.SNAPSHOT, scrape.READ_AT, scrape.ERRORS, scrape.BLIND, scrape.HOSTS, scrape.DAMAGED,
            scrape.VERDICTS, scrape.VERDICT, scrape.UNNAMED,
        ],
        "Each resource set of each host": [*_of(sets.FIGURES), sets.SAMPLES],
        "Samples that are not valid": [samples.INVALID, samples.WITHOUT_VALUE, samples.STALE],
        "Decision inputs": [inputs.WINDOW, inputs.COUNTED, inputs.PLATEAU, inputs.WARMING],
        "Entities": [entities.IDENTITY, entities.VM_STATE, entities.SHADOW, entities.RUNS_TWICE],
        "Books and probes": [
            *_of(pipeline.LEDGER), *_of(pipeline.BOOKS), *_of(pipeline.PROBE), pipeline.WITHOUT_VALUE,
        ],
        "Shards": [*_of(pipeline.SHARD), *_of(pipeline.RISK)],
        "Filter": [*_of(pipeline.FILTER), *_of(pipeline.WORKER), *_of(pipeline.PARTITION)],
        "Archive": _of(pipeline.READER),
        "Findings": [pipeline.FINDINGS],
    }  # fmt: skip


def markdown() -> str:
    """The tables, one for each heading."""
    return "\n".join(f"### {heading}\n\n{_HEAD}{_rows(rows)}" for heading, rows in families().items())


def _of(table: Iterable[tuple[Family, object]]) -> list[Family]:
    return [family for family, _ in table]


def _rows(rows: Iterable[Family]) -> str:
    return "".join(f"| `{row.series_name}` | {', '.join(row.labels)} | {row.help} |\n" for row in rows)


if __name__ == "__main__":
    print(markdown(), end="")
