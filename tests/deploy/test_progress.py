"""Counting the ticks that have no sample, and noticing that a count stands still."""

from __future__ import annotations

import time

import pytest


@pytest.fixture
def progress(monkeypatch):
    import progress

    return progress


def test_ticks_are_missed_when_numbers_pass_without_frames(progress):
    count = progress.TickCount()
    assert count.missed(100.0, 1.0) is None
    count.note(7, 1000, 1, 10.0)
    count.note(7, 1003, 4, 13.0)  # several frames at once: nothing is missed
    assert count.missed(13.5, 1.0) == 0
    count.note(7, 1010, 6, 20.0)
    assert count.missed(20.0, 1.0) == 5
    assert count.missed(24.5, 1.0) == 8  # the newest may be on its way
    count.note(8, 1020, 2, 30.0)  # another epoch counts its frames anew
    assert count.missed(30.0, 1.0) == 5 + 8


def test_a_count_that_stands_still(progress):
    count = progress.Progress()
    count.note(1, 10.0)
    count.note(1, 14.0)
    assert count.quiet(15.0) == 5.0
    count.note(2, 15.0)
    assert count.quiet(15.0) == 0.0


def test_long_running_child_restarts_fast_with_small_log(progress, tmp_path, monkeypatch):
    import children

    monkeypatch.setattr(children, "_STABLE_SECONDS", 0.0)
    monkeypatch.setattr(children, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(children, "_LOG_BYTES", 100)
    said: list[str] = []
    child = children.Child("printer", ["-c", "print('x' * 99)"], tmp_path / "log", said.append)
    lines: list[str] = []
    for restarts in range(1, 4):
        child._process.wait()
        lines += child.new_lines()
        assert (tmp_path / "log").stat().st_size == 0
        while child.restarts < restarts:
            child.supervise()
            time.sleep(0.005)
        assert child._pause == 0.02  # not doubled again
    child.stop(1.0)
    assert lines == ["x" * 99] * 3
    assert child.restarts == 3
