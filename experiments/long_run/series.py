"""Series of a long run: memory, keys and entries, every few seconds.

Memory is that of every part, keys and entries those of the shards.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from acquisition.link.cluster import Cluster
from experiments.harness import shard_counts
from experiments.harness.usage import Roles

_FIELDS = {"Rss": "rss", "Pss": "pss", "Anonymous": "anonymous"}  #: of smaps_rollup (proc(5))


def memory(pids: Sequence[int]) -> dict[str, int]:
    """RSS, PSS and anonymous memory in bytes, summed over processes. Raises OSError if one is gone.

    Verdicts use RSS: PSS depends on which other processes share the interpreter's text.
    """
    sums = dict.fromkeys(_FIELDS.values(), 0)
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in _FIELDS:
                sums[_FIELDS[name]] += int(value.split()[0]) * 1024
    return sums


def row(at: float, roles: Roles, cluster: Cluster) -> dict[str, float]:
    """One row: seconds since the beginning, memory by role, counts reported by the shards."""
    found: dict[str, float] = {"seconds": round(at, 2)}
    for role, pids in roles.items():
        found |= {f"{role}_{name}": value for name, value in memory(pids).items()}
    counts = shard_counts.read(cluster)
    return found | {
        "shards_used_memory": counts.memory_bytes,
        "keys": sum(shard_counts.ask_all(cluster, "DBSIZE")),
        "members": counts.members,
        "entries": counts.stored_frames,
        "invalid": counts.invalid,
        "lost": counts.lost,
        "refused": counts.refused,
        "duplicates": counts.duplicates,
    }


def column(rows: Sequence[Mapping[str, float]], name: str) -> list[float]:
    """One column of the series."""
    return [found[name] for found in rows]


def write(path: Path, rows: Sequence[Mapping[str, float]]) -> None:
    """The series as CSV."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
