"""Virtual machines that start and stop are seen between two scans, and those that nobody has reaped are gone."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from probes.metrics import VMS
from probes.processes.discovery import Discovery, Selection
from probes.sampling.host_facts import HostFacts
from probes.sources.procfs_vms import VmSource
from tests.support.waiting import eventually

SCAN_SECONDS = 1e6  #: there is but the first
Start = Callable[[str], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process with the name and options of a guest; what runs before it becomes one is a shell."""
    program = tmp_path / "kvm"
    shutil.copy("/bin/sh", program)
    made = []

    def guest(name: str) -> subprocess.Popen[bytes]:
        script = f'read line; exec {program} -c "read line; read line" -id 1 -name {name} -m 64'
        made.append(subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE))
        return made[-1]

    yield guest
    for each in made:
        each.kill()
        each.communicate()


def go_on(guest: subprocess.Popen[bytes]) -> None:
    """The shell becomes a guest."""
    assert guest.stdin is not None
    guest.stdin.write(b"go\n")
    guest.stdin.flush()


class Here:
    """The VMs of this machine, of which only those of the test count."""

    def __init__(self) -> None:
        self.discovery = Discovery(HostFacts("here"), Selection(), SCAN_SECONDS)
        self.source = VmSource(VMS, self.discovery._facts, self.discovery)
        self._seconds = 10.0

    def names(self) -> set[str]:
        self._seconds += 1.0
        reading = self.source.sample(1000.0 + self._seconds, self._seconds)
        return {entity.name for entity in reading.entities} if reading is not None else set()


@pytest.mark.parametrize("rights", [True, False])
def test_guest_is_seen_when_its_process_becomes_one(
    start: Start, rights: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not rights:  # executables of other users cannot be read
        monkeypatch.setattr("probes.processes.discovery.executable", lambda base: None)
    here = Here()
    with closing(here.source):
        here.names()
        guest = start("late")
        assert "late" not in here.names()
        go_on(guest)
        eventually(here.source.glance)
        eventually(lambda: "late" in here.names())


def test_guest_that_has_ended_is_gone_though_not_reaped(start: Start) -> None:
    here = Here()
    with closing(here.source):
        here.names()
        guests = [start(name) for name in ("none", "one", "two")]

        def end(number: int) -> None:
            os.kill(guests[number].pid, 9)
            eventually(here.source.glance)

        for guest in guests:
            go_on(guest)
        eventually(lambda: here.names() >= {"none", "one", "two"})
        end(0)
        assert {"none", "one", "two"} & here.names() == {"one", "two"}
        with_two = len(os.listdir("/proc/self/fd"))
        end(1)
        assert {"one", "two"} & here.names() == {"two"}
        with_one = len(os.listdir("/proc/self/fd"))
        os.kill(guests[2].pid, 9)
        eventually(lambda: not {"one", "two"} & here.names())
        assert with_two > with_one
        assert len(os.listdir("/proc/self/fd")) == with_one - (with_two - with_one)
