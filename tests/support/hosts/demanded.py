"""Demand of hosts by tests: skipped loudly where impossible, failed on CI.

On CI that holds for root.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from experiments.hosts import Host, data_center, missing, tree
from tests.support.hosts import stamp


@contextmanager
def hosts_for_a_test(
    directory: Path, names: Sequence[str], *, packages: Sequence[str] = (), suite: str = tree.SUITE
) -> Iterator[Mapping[str, Host]]:
    """As ``data_center``."""
    reason = missing()
    if reason:
        said = f"{stamp.NOT_TESTED}: {reason}"
        if os.environ.get("CI") and os.geteuid() == 0:
            pytest.fail(said, pytrace=False)
        pytest.skip(said)
    with data_center(directory, names, packages=packages, suite=suite) as hosts:
        yield hosts
