"""Discovery: who is watched, kernel threads, virtual machines, the limit, new and vanished ones."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from probes.processes.discovery import Discovery, Selection, parse_stat, still_there
from probes.sampling.host_facts import HostFacts
from tests.support.fake_proc import KERNEL_THREAD, FakeProc


@pytest.fixture
def proc(tmp_path: Path) -> FakeProc:
    found = FakeProc(tmp_path)
    found.add(1, "init", "/sbin/init", start=1)
    found.add(2, "kthreadd", flags=KERNEL_THREAD, start=1)
    found.add(50, "python3", "python3 /srv/app.py --port 80", cgroup="0::/system.slice/app.service\n")
    found.add(60, "a (b) c", "odd")
    found.add(
        70,
        "qemu-system-x86",
        "/usr/bin/qemu-system-x86_64 -name guest=web,debug-threads=on -m size=2097152k -smp 4,maxcpus=8 -uuid 1-2-3",
        cgroup="0::/machine.slice/qemu-1.scope\n",
    )
    return found


def test_all_processes_but_kernel_threads_and_virtual_machines(proc: FakeProc) -> None:
    found = proc.discovery(Selection())
    assert set(found.processes) == {1, 50, 60}
    assert set(found.guests) == {70}
    guest = found.guests[70].guest
    assert guest is not None
    assert (guest.name, guest.uuid, guest.vcpus, guest.memory_bytes) == ("web", "1-2-3", 4, 2 << 30)


def test_daemons_are_watched_whatever_the_selectors(proc: FakeProc) -> None:
    for pid, name in enumerate(["libvirtd", "systemd-journal", "redis-server", "shardpulse-filt", "libvirtd-x"], 80):
        proc.add(pid, name)
    assert set(proc.discovery(Selection(pids=(1,), daemons=True)).processes) == {1, 80, 81, 82, 83}
    assert set(proc.discovery(Selection(pids=(1,))).processes) == {1}


@pytest.mark.parametrize(
    ("selection", "pids"),
    [
        (Selection(commands=("app\\.py",)), {50}),
        (Selection(commands=("^init$",)), {1}),
        (Selection(cgroups=("/system\\.slice/.*",)), {50}),
        (Selection(pids=(2, 60)), {2, 60}),
        (Selection(commands=("qemu",)), {70}),
        (Selection(uids=(os.getuid(),)), {1, 50, 60, 70}),
        (Selection(uids=(os.getuid() + 1,)), set()),
        (Selection(every=False), set()),
        (Selection(commands=("app",), pids=(1,)), {1, 50}),
    ],
)
def test_selectors(proc: FakeProc, selection: Selection, pids: set[int]) -> None:
    found = proc.discovery(selection)
    assert set(found.processes) == pids
    assert set(found.guests) == {70}


def test_a_forgotten_process_that_still_lives_comes_back(proc: FakeProc) -> None:
    found = proc.discovery(Selection())
    before = found.processes[50]
    found.forget(50)
    assert set(found.processes) == {1, 60}
    generation = found.generation
    assert found.refresh(1005.0) == generation + 1
    assert found.processes[50] == before


def test_a_process_has_ended_when_it_is_gone_or_its_pid_is_anothers(proc: FakeProc) -> None:
    process = proc.discovery(Selection()).processes[60]
    assert still_there(str(proc.path), process)
    (proc.path / "60" / "stat").write_text("")  # cannot be told
    assert still_there(str(proc.path), process)
    proc.add(60, "another", start=101)
    assert not still_there(str(proc.path), process)
    proc.remove(60)
    assert not still_there(str(proc.path), process)


def test_new_and_vanished_processes_at_the_next_scan_only(proc: FakeProc) -> None:
    found = proc.discovery(Selection())
    generation = found.generation
    proc.add(80, "new")
    proc.remove(60)
    assert found.refresh(1004.9) == generation
    assert found.refresh(1005.0) == generation + 1
    assert set(found.processes) == {1, 50, 80}
    assert found.refresh(1010.0) == generation + 1


def test_process_after_exec_is_inspected_again(proc: FakeProc) -> None:
    proc.add(80, "sh", "sh -c app")
    found = proc.discovery(Selection(commands=("java",)))
    assert not found.processes
    proc.add(80, "java", "java -jar x.jar")
    found.scan()
    assert found.processes[80].command == "java"


def test_only_new_processes_are_inspected_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with subprocess.Popen(["sleep", "60"]) as old:
        time.sleep(1.1)
        with subprocess.Popen(["sleep", "60"]) as young:
            try:
                discovery = Discovery(HostFacts("h"), Selection(), 1.0)
                discovery.scan()
                looked: list[int] = []
                look = discovery._look
                monkeypatch.setattr(discovery, "_look", lambda pid, fresh: (looked.append(pid), look(pid, fresh))[1])
                turn = discovery._round[1 :: discovery._turns]
                discovery.scan()
                assert young.pid in looked
                assert old.pid not in looked or old.pid in turn
                for _ in range(discovery._turns):
                    discovery.scan()
                assert {old.pid, young.pid} <= set(looked)
                assert {old.pid, young.pid} <= discovery.processes.keys()
            finally:
                young.kill()
                old.kill()


def test_a_later_change_of_program_and_a_reused_pid_are_found_in_time(proc: FakeProc) -> None:
    found = proc.discovery(Selection(commands=("java",)))
    for _ in range(3):
        found.scan()
    proc.add(50, "java", "java", start=777)
    for _ in range(12):
        found.scan()
    assert found.processes[50].start == 777


def test_many_processes_are_inspected_a_hundred_at_a_time(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("probes.processes.discovery._MOST_AGAIN", 5)
    for number in range(200):
        proc.add(1000 + number, f"one{number}")
    discovery = proc.discovery(Selection())
    for _ in range(2):
        discovery.scan()
    looked: list[int] = []
    look = discovery._look
    monkeypatch.setattr(discovery, "_look", lambda pid, fresh: (looked.append(pid), look(pid, fresh))[1])
    most = 0
    for _ in range(80):
        before = len(looked)
        discovery.scan()
        most = max(most, len(looked) - before)
    assert set(looked) == {int(each.name) for each in proc.path.iterdir() if each.name.isdecimal()}
    assert most <= 10


def listings(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """How often /proc is listed from now on."""
    listed: list[str] = []
    list_names = os.listdir
    monkeypatch.setattr(os, "listdir", lambda path: (listed.append(path), list_names(path))[1])
    return listed


def test_only_new_pids_are_inspected_between_listings(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(100):
        proc.add(1000 + number, f"one{number}")
    proc.newest(1099)
    found = proc.discovery(Selection(commands=("java", "one7$")))
    listed = listings(proc, monkeypatch)
    proc.add(1101, "java")
    proc.add(1102, "java")
    (proc.path / "1102" / "status").write_text("Name:\tjava\nTgid:\t1101\n")  # a thread of 1101
    proc.newest(1105)
    found.scan()
    assert set(found.processes) == {1007, 1101}
    found.forget(1101)  # it has ended, and another got its pid
    found.scan()
    assert set(found.processes) == {1007, 1101}
    assert listed == []
    for _ in range(12):
        found.scan()
    assert len(listed) == 1  # once in a round


@pytest.mark.parametrize("newest", [90, 1500, None])
def test_pids_that_cannot_be_counted_are_listed(
    newest: int | None, proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(100):
        proc.add(1000 + number, f"one{number}")
    proc.newest(1099)
    found = proc.discovery(Selection())
    listed = listings(proc, monkeypatch)
    proc.add(90, "java")
    if newest is None:
        (proc.path / "loadavg").write_text("")
    else:
        proc.newest(newest)  # the kernel has begun anew below, or has handed out too many to look at each
    found.scan()
    assert 90 in found.processes
    assert len(listed) == 1


def test_the_newest_pid_of_another_namespace_says_nothing(proc: FakeProc, monkeypatch: pytest.MonkeyPatch) -> None:
    (proc.path / "self").symlink_to("4")
    proc.newest(70)
    found = proc.discovery(Selection())
    listed = listings(proc, monkeypatch)
    found.scan()
    assert len(listed) == 1


def test_kernel_threads_are_not_inspected_again_until_pids_wrap(
    proc: FakeProc, monkeypatch: pytest.MonkeyPatch
) -> None:
    proc.add(40, "kworker", flags=KERNEL_THREAD)
    proc.newest(99)
    discovery = proc.discovery(Selection())
    discovery.scan()  # what is new is looked into twice
    looked: list[int] = []
    look = discovery._look
    monkeypatch.setattr(discovery, "_look", lambda pid, fresh: (looked.append(pid), look(pid, fresh))[1])
    for _ in range(24):
        discovery.scan()
    assert set(looked) == {1, 50, 60, 70}
    proc.add(40, "java")  # the pid is another's by now, as the kernel has begun anew below
    proc.newest(45)
    for _ in range(13):
        discovery.scan()
    assert discovery.processes[40].command == "java"


def test_thread_with_the_pid_of_a_former_process_is_not_found(proc: FakeProc) -> None:
    proc.newest(99)
    found = proc.discovery(Selection())
    proc.remove(60)
    for _ in range(12):  # in each round every pid that was listed is looked into again
        proc.add(60, "kvm", "kvm -m 5")
        (proc.path / "60" / "status").write_text("Name:\tkvm\nTgid:\t50\n")
        found.scan()
        assert 60 not in found.guests


def test_kernel_helper_is_found_after_exec(proc: FakeProc) -> None:
    for number in range(100):
        proc.add(1000 + number, f"one{number}")
    proc.newest(1099)
    found = proc.discovery(Selection())
    proc.add(1100, "kworker/u8:1", flags=KERNEL_THREAD)
    proc.newest(1100)
    found.scan()
    assert 1100 not in found.processes
    proc.add(1100, "modprobe")
    found.scan()
    assert found.processes[1100].command == "modprobe"


def test_beyond_the_limit_the_choice_is_stable_and_counted(proc: FakeProc) -> None:
    for number in range(10):
        proc.add(100 + number, "worker", start=200 + number)
    found = proc.discovery(Selection(commands=("worker",), limit=3))
    assert set(found.processes) == {100, 101, 102}
    assert found.left_out == 7
    proc.add(99, "worker", start=150)  # older, but the others are watched already
    proc.remove(101)
    found.scan()
    assert set(found.processes) == {99, 100, 102}
    assert found.left_out == 7


def test_a_process_that_ends_while_it_is_looked_at_is_none(proc: FakeProc) -> None:
    (proc.path / "90").mkdir()
    (proc.path / "91").mkdir()
    (proc.path / "91" / "stat").write_text("rubbish")
    found = proc.discovery(Selection())
    assert set(found.processes) == {1, 50, 60}


def test_commands_with_spaces_and_parentheses() -> None:
    command, fields = parse_stat(b"7 (x) y) (z) R 1 2\n")
    assert command == "x) y) (z"
    assert fields == [b"R", b"1", b"2"]


def test_this_machine() -> None:
    found = Discovery(HostFacts("h"), Selection(), 5.0)
    found.scan()
    assert os.getpid() in found.processes
    assert not any(each.kernel_thread for each in found.processes.values())
