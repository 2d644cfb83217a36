"""Newcomers: processes that have just come are found at a glance, threads and ended ones are none of them."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from pathlib import Path

import pytest

from probes.processes.discovery import Selection
from probes.processes.newcomers import Newcomers
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


def test_guest_is_found_at_a_glance_only_while_its_process_is_young(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = proc.discovery(Selection())
    proc.add(1020, "sh")
    proc.newest(1020)
    found.scan()
    proc.add(1020, "kvm", "kvm -m 5")  # after the scan that has listed it
    found.glance()
    assert 1020 in found.guests
    proc.add(1021, "sh")
    proc.newest(1021)
    found.glance()
    later = time.monotonic() + 2.1
    monkeypatch.setattr(time, "monotonic", lambda: later)
    proc.add(1021, "kvm", "kvm -m 5")
    found.glance()
    assert 1021 not in found.guests
    found.scan()
    assert 1021 in found.guests


@pytest.mark.parametrize("has_pidfds", [True, False])
def test_threads_and_ended_processes_are_no_newcomers(has_pidfds: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_pidfds:
        monkeypatch.delattr(os, "pidfd_open")
    newcomers = Newcomers("/proc")
    newcomers.look(10**6)
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    subprocess.run(["true"], check=True)
    with subprocess.Popen(["sleep", "60"]) as living:
        found = newcomers.look(10**6)
        living.kill()
    stop.set()
    thread.join()
    assert found is not None
    assert living.pid in found
    assert thread.native_id not in found
    assert len(found) < newcomers._newest - newcomers._before
