"""Which tests run at the same time: a plugin of pytest for runs with several workers (``-n``).

Tests wait more than they compute, so ``tests/run`` starts more workers than there are cores. A test that is
marked ``alone`` measures time: it runs last, and nothing else runs beside it. Tests that share a fixture of
their module or package stay in one worker. Everything else goes to the next worker that is free, long programs first.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

_LONG = {"experiments", "deploy"}  #: rooms whose tests take longest: they start first
# Locks of their own files: nothing to make or to remove, and a worker that dies leaves none.
_DOOR = Path(__file__)  #: held while one waits to enter, so that nobody overtakes a test that wants to be alone
_FLOOR = Path(__file__).with_name("__init__.py")  #: shared by tests that run together, exclusive for one alone


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order and group the tests of a run with several workers; without them they stay as they were collected."""
    if not _is_worker(config):
        return
    for item in items:
        group = "alone" if _is_alone(item) else _shared(item)
        if group:
            item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: (_is_alone(item), not _LONG & set(item.path.parts)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """One test with its fixtures, beside others or alone."""
    if not _is_worker(item.config):
        return (yield)
    kind = fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH
    with _locked(_DOOR, fcntl.LOCK_EX) as entered, _locked(_FLOOR, kind):
        fcntl.flock(entered, fcntl.LOCK_UN)
        return (yield)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def _shared(item: pytest.Item) -> str:
    """The module or package whose own fixture a test shares with its neighbours; "" when it shares none."""
    found = getattr(item, "_fixtureinfo", None)
    definitions = found.name2fixturedefs.values() if found else ()
    scopes = {each[-1].scope for each in definitions if each}
    return item.path.parent.name if "package" in scopes else item.path.stem if "module" in scopes else ""


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that a test forked may hold the descriptor
        os.close(descriptor)
