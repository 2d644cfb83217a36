"""Quick tests: selection by ``tests/run --quick``, a pytest plugin.

Quick are those that start no server: pure logic. What takes shards, and rooms whose tests start them themselves, is
marked ``slow`` here, unless it is marked ``quick``: one pass of the whole pipeline is.
"""

from __future__ import annotations

import pytest

_SERVERS = {"shards", "start_cluster", "postgresql"}
_ROOMS = {"experiments", "deploy", "extending", "shards", "service", "tutorial"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is slow before ``-m`` chooses."""
    for item in items:
        starts = _SERVERS & set(getattr(item, "fixturenames", ()))
        if (starts or _ROOMS & set(item.path.parts)) and item.get_closest_marker("quick") is None:
            item.add_marker(pytest.mark.slow)
