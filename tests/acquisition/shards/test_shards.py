"""Real shards: started, pinned, joined, stopped; what goes wrong on the way; the command `shardpulse shards`."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from acquisition import lifeline
from acquisition.errors import CannotCreateError, ConfigError, ShardError
from acquisition.link import state_directory
from acquisition.link.layouts import read_layout
from acquisition.shards import command as shards_command
from acquisition.shards.servers import machine, redis_binary
from acquisition.shards.servers import process as shard_process
from acquisition.shards.servers import status as shard_status
from acquisition.shards.servers.launch import running, start_shards
from acquisition.shards.topology.join import stripes
from acquisition.wire import layout
from acquisition.wire.records import record_format
from acquisition.wire.records.record_format import NEWEST
from tests.support import layouts
from tests.support.ports import base_port
from tests.support.processes import started
from tests.support.servers import PATHS
from tests.support.waiting import PATIENCE


@pytest.mark.parametrize("moment", ["configure", "launch"])
def test_a_signal_while_servers_are_started_leaves_nothing(moment, tmp_path, monkeypatch):
    real, calls = getattr(shard_process, moment), itertools.count(1)

    def interrupted(*arguments):
        made = real(*arguments)
        if next(calls) == 2:
            signal.raise_signal(signal.SIGINT)
        return made

    monkeypatch.setattr(shard_process, moment, interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # not so where tests run in the background
    try:
        with pytest.raises(KeyboardInterrupt):
            start_shards(2, tmp_path / "state")
    finally:
        signal.signal(signal.SIGINT, before)
    assert not (tmp_path / "state").exists()


def gone(pids: list[int], seconds: float = PATIENCE) -> bool:
    deadline = time.monotonic() + seconds
    while any(machine.start_time(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


@pytest.mark.parametrize("count", [1, 2, 3])
def test_shards_form_a_cluster_and_leave_nothing(count, tmp_path):
    directory = tmp_path / 'a "quoted" name'
    with start_shards(count, directory, partitions=16, keep_ticks=5) as shards:
        cluster = shards.connect()
        layout = read_layout(cluster)
        assert (layout.partitions, layout.keep_ticks) == (16, 5)
        assert cluster.masters() == shards.addresses
        for number in range(50):
            cluster.call(f"key:{number}", "SET", f"key:{number}", number)
        cluster.close()
        rows = shard_status.read(shards.shards, 16)
        assert [row.slots for row in rows] == [high - low + 1 for low, high in stripes(count)]
        assert all(row.pinned and row.answering and row.cluster_state == "ok" for row in rows)
        usable = machine.cores()
        assert [row.core for row in rows] == [usable[number % len(usable)] for number in range(count)]
        pids = shards.pids
    assert gone(pids)
    assert not directory.exists()


def test_the_pin_is_read_back_from_the_kernel(shards):
    shard = shards.shards[0]
    assert shard.pinned
    assert not machine.is_pinned(shard.pid, shard.core + 1)
    if len(machine.cores()) > 1:
        assert not machine.is_pinned(os.getpid(), machine.cores()[0])


def test_stripes_are_even_and_complete():
    for count in range(1, 20):
        found = stripes(count)
        assert [found[0][0], found[-1][1]] == [0, 16383]
        assert all(a[1] + 1 == b[0] for a, b in itertools.pairwise(found))
        sizes = {high - low + 1 for low, high in found}
        assert max(sizes) - min(sizes) <= 1


def test_a_core_that_does_not_exist_is_refused(tmp_path):
    missing = max(machine.cores()) + 1000
    with pytest.raises(CannotCreateError, match=f"core {missing} is not available"):
        start_shards(1, tmp_path / "s", cores=[missing])
    assert not (tmp_path / "s").exists()


def test_only_the_given_cores_are_used(start_cluster):
    core = machine.cores()[-1]
    assert [shard.core for shard in start_cluster(2, cores=[core]).shards] == [core, core]


@pytest.mark.parametrize("offset", [0, machine.BUS_OFFSET])
def test_a_port_in_use_is_named(offset, tmp_path):
    (base,) = machine.free_ports(1)
    with socket.create_server(("127.0.0.1", base + offset)):
        with pytest.raises(CannotCreateError, match=f"port {base + offset} .*in use") as caught:
            start_shards(1, tmp_path / "s", choose_ports=partial(machine.fixed_ports, base))
        assert caught.value.exit_code == 73


def test_a_port_that_is_taken_after_the_look_is_tried_again(tmp_path, monkeypatch):
    (taken,) = machine.free_ports(1)
    real = machine.free_ports
    answers = [[taken], real(1)]
    monkeypatch.setattr(machine, "free_ports", lambda count, host: answers.pop(0))
    with socket.create_server(("127.0.0.1", taken)), start_shards(1, tmp_path / "s") as shards:
        assert shards.addresses[0].port != taken
        assert not answers


def test_another_shard_at_the_port_is_not_mistaken_for_ours(shards, tmp_path, monkeypatch):
    other = shards.addresses[0].port
    real = machine.free_ports
    answers = [[other], real(1)]
    monkeypatch.setattr(machine, "free_ports", lambda count, host: answers.pop(0))
    with start_shards(1, tmp_path / "s") as own:
        assert own.addresses[0].port != other


def test_a_server_that_refuses_its_configuration_says_why(tmp_path):
    with pytest.raises(ShardError, match="exited during startup"):
        start_shards(1, tmp_path / "s", directives={"no-such-directive": "1"})
    assert not (tmp_path / "s").exists()


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CannotCreateError, match="cannot write the files of shard"):
        start_shards(1, tmp_path / "file" / "s")


def test_status_tells_of_a_killed_and_of_a_stopped_shard(start_cluster):
    shards = start_cluster(3)
    os.kill(shards.pids[0], signal.SIGKILL)
    os.kill(shards.pids[1], signal.SIGSTOP)
    assert gone(shards.pids[:1])
    rows = shard_status.read(shards.shards, timeout=2.0)
    assert [row.answering for row in rows] == [False, False, True]
    assert rows[0].problem == "process not running"
    assert "timed out" in rows[1].problem
    assert len(shards.alive) == 2
    shards.stop()  # a stopped process hears only SIGKILL
    assert gone(shards.pids)


@pytest.mark.parametrize("path", PATHS)
def test_a_killed_shard_comes_back_empty_at_its_place(path, start_cluster):
    shards = start_cluster(2, redis=redis_binary.find(path))
    before = shards.shards
    assert shards.revive() == []
    os.kill(shards.pids[0], signal.SIGKILL)
    assert gone(shards.pids[:1])
    (revived,) = shards.revive()
    assert revived.address == before[0].address
    assert revived.started != before[0].started
    assert shards.shards == (revived, before[1])
    rows = shard_status.read(shards.shards)
    assert [(row.slots, row.cluster_state, row.pinned) for row in rows] == [(8192, "ok", True)] * 2
    cluster = shards.connect()
    assert read_layout(cluster).partitions == 64
    cluster.close()


def test_frames_are_counted(start_cluster):
    shards = start_cluster(1)
    cluster = shards.connect()
    tag = read_layout(cluster).tags[0]
    for _ in range(3):
        cluster.call(f"raw:{{{tag}}}", "XADD", f"raw:{{{tag}}}", "*", "f", b"x")
    cluster.call(f"raw:{{{tag}}}", "XTRIM", f"raw:{{{tag}}}", "MAXLEN", "1")
    cluster.close()
    (row,) = shard_status.read(shards.shards)
    assert (row.frames, row.frames_kept) == (3, 1)
    assert row.cpu_seconds > 0
    assert 0 < row.memory_bytes < row.memory_limit_bytes


def test_shards_die_with_a_parent_that_is_killed(tmp_path):
    code = (
        "import sys, time; from acquisition.shards.servers.launch import start_shards\n"
        f"print(*start_shards(2, {str(tmp_path / 's')!r}).pids, flush=True); time.sleep(600)"
    )
    with started([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(machine.start_time(pid) for pid in pids)
    assert gone(pids)


def test_a_tied_child_gets_the_signal_it_asked_for(tmp_path):
    marker = tmp_path / "marker"
    child = ["/bin/sh", "-c", f"trap 'echo done > {marker}; exit' TERM; echo ready; while :; do sleep 0.05; done"]
    code = (
        "import subprocess, sys; from acquisition import lifeline\n"
        f"child = subprocess.Popen(lifeline.tied({child!r}, 15), stdout=subprocess.PIPE)\n"
        "print(child.pid, child.stdout.readline(), flush=True); sys.stdin.read()"
    )
    with started([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline().split()[0])
    assert gone([pid])
    assert marker.read_text() == "done\n"


def test_a_tied_command_keeps_its_arguments_and_exit_code():
    done = subprocess.run(lifeline.tied(["/bin/sh", "-c", 'echo "$1"; exit 7', "sh", "a b"]), capture_output=True)
    assert (done.returncode, done.stdout) == (7, b"a b\n")


def test_the_state_file_tells_of_them(start_cluster, tmp_path):
    shards = start_cluster(1)
    again = running(shards.directory)
    assert again is not None
    assert (again.shards, again.redis, again.layout) == (shards.shards, shards.redis, shards.layout)
    assert running(tmp_path) is None
    (shards.directory / "shards.json").write_text('{"shards": [{}]}')
    with pytest.raises(ConfigError, match="cannot read"):
        running(shards.directory)


def test_the_record_format_is_raised_and_remembered(start_cluster, capsys, monkeypatch):
    """An older version, of which this one still knows the format, has started these shards."""
    monkeypatch.setitem(record_format.FORMATS, NEWEST - 1, record_format.FORMATS[NEWEST])
    shards = start_cluster(2)
    state = shards.directory / "shards.json"
    document = json.loads(state.read_text())
    document["layout"]["record_format"] = NEWEST - 1
    state.write_text(json.dumps(document))
    cluster = shards.connect()
    older = layout.encode(read_layout(cluster)._replace(record_format=NEWEST - 1))
    layouts.put(cluster, older)
    told = []
    command = ["--dir", str(shards.directory)]
    assert shards_command.main(["status", *command]) == 0
    assert f"records of format {NEWEST - 1}, not {NEWEST}: run `shardpulse shards upgrade`" in capsys.readouterr().out
    for options in ([], ["--json"]):
        assert shards_command.main(["upgrade", "--dir", str(shards.directory), *options]) == 0
        told.append(capsys.readouterr().out)
    assert f"format {NEWEST} (previously {NEWEST - 1})" in told[0]
    assert json.loads(told[1]) == {"record_format": NEWEST, "before": NEWEST}
    assert read_layout(cluster).record_format == running(shards.directory).layout.record_format == NEWEST
    cluster.close()
    shards_command.main(["status", *command, "--json"])
    assert json.loads(capsys.readouterr().out)["record_format"] == NEWEST


def test_a_state_directory_of_doubtful_ownership_is_refused(tmp_path):
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o777)
    with pytest.raises(CannotCreateError, match="writable by other users"), state_directory.locked(loose):
        pass
    (tmp_path / "link").symlink_to(loose)
    with pytest.raises(CannotCreateError, match="Not a directory"), state_directory.locked(tmp_path / "link"):
        pass
    if os.geteuid() == 0:
        os.chown(loose, 12345, 12345)
        with pytest.raises(CannotCreateError, match="belongs to another user"), state_directory.locked(loose):
            pass


def test_one_command_at_a_time(tmp_path):
    with (
        state_directory.locked(tmp_path / "s"),
        pytest.raises(CannotCreateError, match="another command"),
        state_directory.locked(tmp_path / "s"),
    ):
        pass
    assert not (tmp_path / "s").exists()


# ---- the command


def command(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    full = [sys.executable, "-m", "acquisition", "shards", *arguments, "--dir", str(directory)]
    return subprocess.run(full, capture_output=True, text=True, timeout=60)


@pytest.fixture
def directory(tmp_path):
    yield tmp_path / "state"
    command(tmp_path / "state", "down")


def test_up_status_down(directory):
    up = command(directory, "up", "--count", "2", "--json")
    assert up.returncode == 0, up.stderr
    rows = json.loads(up.stdout)["shards"]
    pids = [row["pid"] for row in rows]
    assert all(row["pinned"] and row["answering"] for row in rows)
    assert directory.stat().st_mode & 0o777 == 0o700

    again = command(directory, "up")
    assert (again.returncode, again.stderr) == (0, f"already running in {directory}\n")
    assert all(f"pid {pid}" in again.stdout for pid in pids)
    other = command(directory, "up", "--count", "1", "--base-port", "7001")
    assert other.stderr == f"already running in {directory}; --count, --base-port ignored\n"

    status = command(directory, "status")
    assert status.returncode == 0
    assert "two shards have no majority without each other" in status.stdout
    assert command(directory, "down").stdout == "stopped 2 shards\n"
    assert gone(pids)
    assert not directory.exists()
    assert command(directory, "down").returncode == 0
    status = command(directory, "status")
    assert status.returncode == 69
    assert "shardpulse shards up" in status.stderr


@pytest.mark.alone
def test_ports_start_at_7600_and_skipped_ones_are_named(directory):
    first, second = machine.next_ports(2)
    with socket.create_server(("127.0.0.1", first)):
        up = command(directory, "up", "--count", "1", "--json")
    assert up.returncode == 0, up.stderr
    port = int(json.loads(up.stdout)["shards"][0]["address"].rpartition(":")[2])
    assert port >= second > first >= machine.FIRST_PORT
    (named,) = re.findall(r"skipped ([^:]+): ", up.stderr)
    assert str(first) in named or named.endswith("…")  # others have taken more ports than are named


def test_down_after_kill_9(directory):
    rows = json.loads(command(directory, "up", "--count", "2", "--base-port", base_port(2), "--json").stdout)["shards"]
    pids = [row["pid"] for row in rows]
    os.kill(pids[0], signal.SIGKILL)
    assert gone(pids[:1])
    status = command(directory, "status", "--json")
    assert status.returncode == 69
    assert [row["answering"] for row in json.loads(status.stdout)["shards"]] == [False, True]
    again = command(directory, "up", "--json")
    assert again.returncode == 0
    assert "which had died" in again.stderr
    rows = json.loads(again.stdout)["shards"]
    assert [row["slots"] for row in rows] == [8192, 8192]
    os.kill(rows[1]["pid"], signal.SIGKILL)
    assert command(directory, "down").returncode == 0
    assert gone([row["pid"] for row in rows])  # an id of before may be another process by now
    assert not directory.exists()


def test_up_after_all_were_killed_starts_anew(directory):
    rows = json.loads(command(directory, "up", "--count", "1", "--base-port", base_port(1), "--json").stdout)["shards"]
    os.kill(rows[0]["pid"], signal.SIGKILL)
    assert gone([rows[0]["pid"]])
    up = command(directory, "up", "--count", "1", "--base-port", base_port(1), "--json")
    assert up.returncode == 0, up.stderr
    assert json.loads(up.stdout)["shards"][0]["pid"] != rows[0]["pid"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["up", "--cores", "4000"], 73, "core 4000 is not available"),
        (["up", "--cores", "a"], 2, "invalid core list"),
        (["up", "--count", "1000"], 2, "too many shards for"),
        (["up", "--count", "0"], 2, "is not in the range 1 to 65535"),
        (["up", "--base-port", "55536", "--count", "1"], 73, "port 55536 is too high"),
        (["sideways"], 2, "invalid choice"),
    ],
)
def test_a_wrong_request(arguments, code, words, directory):
    done = command(directory, *arguments)
    assert done.returncode == code
    assert words in done.stderr
    assert not directory.exists()
