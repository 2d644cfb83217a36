"""Newcomers: processes that have just come are found at a glance."""

from __future__ import annotations

from pathlib import Path

import pytest

from probes.processes.discovery import Selection
from tests.support.fake_proc import FakeProc


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    found = FakeProc(tmp_path)
    found.add(50, "python3")
    for number in range(20):
        found.add(1000 + number, f"one{number}")
    found.newest(1019)
    return found


def test_guest_is_found_at_a_glance_when_pids_have_gone_round(proc: FakeProc) -> None:
    found = proc.discovery(Selection())
    proc.add(50, "kvm", "kvm -m 5")  # this pid was listed before, as another process
    found.glance()
    assert 50 not in found.guests
    proc.newest(55)
    found.glance()
    assert 50 in found.guests
