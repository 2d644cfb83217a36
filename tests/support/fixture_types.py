"""Fixture types of conftest.py, for annotations."""

from __future__ import annotations

from collections.abc import Callable

from acquisition.shards.servers.launch import Shards
from tests.support.writer_bench import Pipeline

StartCluster = Callable[..., Shards]
MakePipeline = Callable[..., Pipeline]
