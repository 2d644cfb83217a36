"""docs/architecture.md lists the files that a sample passes: exactly those that a line of vmstat is traced through."""

from __future__ import annotations

from pathlib import Path

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from filters.worker.compute.agreed import STEP
from probes.sampling.native import PROCESSES
from tests.support import ROOT, sample_way
from tests.support.untested import require_native

#: Files, four of them of the default rule; the number only ever falls.
MOST = 60


def test_traced_line_passes_the_documented_files(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    require_native(STEP)
    require_native(PROCESSES)
    found = sample_way.way(cluster, shards, tmp_path)
    hint = "`python -m tests.support.sample_way --write` writes the list again"
    assert sorted(found.files) == sorted(sample_way.documented()), hint


def test_documented_way_is_short_and_its_files_exist() -> None:
    listed = sample_way.documented()
    assert len(listed) <= MOST
    assert [name for name in listed if not (ROOT / name).is_file()] == []
