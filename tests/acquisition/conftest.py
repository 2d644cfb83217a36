"""Writers with a filter worker of their own on real shards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from tests.support.fixture_types import MakePipeline
from tests.support.writer_bench import Pipeline


@pytest.fixture
def make_pipeline(cluster: Cluster, shards: Shards) -> Iterator[MakePipeline]:
    """``make_pipeline(**options of Pipeline)`` on the session's cluster; closed after the test."""
    made: list[Pipeline] = []

    def make(**options: object) -> Pipeline:
        options.setdefault("cluster", cluster)
        options.setdefault("seeds", shards.addresses)
        made.append(Pipeline(**options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for pipeline in made:
        pipeline.close()
