"""Turns of concurrent tests: a pytest plugin for several workers (``-n``).

Tests wait more than they compute, so ``tests/run`` starts more workers than there are cores. A file of tests goes
as a whole to the next worker that is free, so that its fixtures are made once; long programs go first. A test that is
marked ``alone`` measures time: nothing else runs beside it. One marked ``few`` does so as well, but waits for most of
it: four other such tests run beside it. Such tests of a file go by themselves, after all others, so that nobody waits
in the middle for those that run to end. Tests on hosts with systemd take longest and begin first.

Each worker collects all tests. What this compiles is shared, and what it keeps is no garbage.

The summary says how long each of the three phases took, and how long workers were idle at the end of the first.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import os
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

_LONG = {"experiments", "deploy"}  #: rooms whose tests take longest: they start first
_ONE_PACKAGE = "tests/extending/"  #: shares one pipeline for all of its files
_KINDS = {"alone": "alone", "few": "few at a time"}  #: phases of a run by the mark of their tests
_FEW = 5  #: tests that mostly wait run at a time


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Read all files of tests: each worker begins with another one, so that they compile different ones first."""
    gc.disable()
    if _is_worker(session.config) and session.config.args == session.config.getini("testpaths"):
        _compile_a_share(session.config)
    yield
    gc.freeze()  # it stays to the end: nobody looks through it again
    gc.enable()


def _compile_a_share(config: pytest.Config) -> None:
    worker = config.workerinput  # type: ignore[attr-defined]  # of xdist
    files = sorted((config.rootpath / "tests").rglob("test_*.py"))
    sys.path[:0] = sorted({str(path.parent) for path in files})  # as pytest does with each
    for path in files[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]:
        with suppress(Exception, pytest.skip.Exception, pytest.fail.Exception):  # said when it is collected
            importlib.import_module(path.stem)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Files of tests, one after the other, to whoever is free."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
            self._scopes = _parts_of_files(collection)  # the same from every worker
            super().add_node_collection(node, collection)

        def _split_scope(self, nodeid: str) -> str:
            return self._scopes[nodeid]

    return ByFile(config, log)


def _parts_of_files(nodeids: Iterable[str]) -> dict[str, str]:
    """By the name of a test what goes to one worker with it: its neighbours in the order of the run that are of the
    same file."""
    scopes: dict[str, str] = {}
    parts: Counter[str] = Counter()
    last = ""
    for nodeid in nodeids:
        path = nodeid.partition("::")[0]
        file = _ONE_PACKAGE if path.startswith(_ONE_PACKAGE) else path
        parts[file] += file != last
        scopes[nodeid] = f"{file} {parts[file]}"
        last = file
    return scopes


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the tests of a run with several workers; without them they stay as they were collected."""
    if _is_worker(config):
        items.sort(key=_turn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """One test with its fixtures, beside others or alone."""
    if not _is_worker(item.config):
        return (yield)
    # Locks of directories: a worker that dies leaves none. The door is held while one waits to enter, so that nobody
    # overtakes a test that wants to be alone.
    door, *floors = item.config.rootpath, *(item.config.cache.mkdir(f"floor{number}") for number in range(_FEW))
    kind = fcntl.LOCK_EX if _is_alone(item) else fcntl.LOCK_SH
    with ExitStack() as held:
        entered = held.enter_context(_locked(door, fcntl.LOCK_EX))
        if _is_few(item):
            _lock_any(held, floors)
        else:
            for floor in floors:
                held.enter_context(_locked(floor, kind))
        fcntl.flock(entered, fcntl.LOCK_UN)
        return (yield)


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _is_alone(item: pytest.Item) -> bool:
    return item.get_closest_marker("alone") is not None


def _is_few(item: pytest.Item) -> bool:
    return item.get_closest_marker("few") is not None


def _turn(item: pytest.Item) -> tuple[bool, bool, bool, bool]:
    """What sorts the tests of a run: those that run beside others first, and of these the longest."""
    has_hosts = item.get_closest_marker("hosts") is not None
    return _is_alone(item), _is_few(item), not has_hosts, not _LONG & set(item.path.parts)


def _lock_any(held: ExitStack, paths: Iterable[Path]) -> None:
    """One of these, for oneself: whichever is free first."""
    while True:
        for path in paths:
            with suppress(BlockingIOError):
                held.enter_context(_locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB))
                return
        time.sleep(0.02)


class _Phases:
    """Wall clock of the phases of a run: side by side, few at a time, alone."""

    def __init__(self) -> None:
        self._begin = 0.0
        self._ends: dict[str, dict[str, float]] = {"side by side": {}, "few at a time": {}, "alone": {}}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note when a worker has ended a test."""
        kind = next((kind for mark, kind in _KINDS.items() if mark in report.keywords), "side by side")
        self._begin = min(self._begin or report.start, report.start)
        self._ends[kind][getattr(report, "worker_id", "")] = report.stop

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """One line."""
        parts, begin = [], self._begin
        for kind, ends in self._ends.items():
            end = max([begin, *ends.values()])
            parts.append(f"{kind} {end - begin:.0f} s")
            if kind == "side by side" and ends:
                parts[-1] += f" (idle at the end: {', '.join(f'{end - each:.0f}' for each in sorted(ends.values()))} s)"
            begin = end
        terminalreporter.line(f"wall clock of the workers: {', '.join(parts)}")


def pytest_configure(config: pytest.Config) -> None:
    """Watch the phases where workers run."""
    if not _is_worker(config) and config.getoption("numprocesses", None):
        config.pluginmanager.register(_Phases())


@contextmanager
def _locked(path: Path, kind: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, kind)
        yield descriptor
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)  # a child that a test forked may hold the descriptor
        os.close(descriptor)
