"""``experiments.testbed``: what a file may say, a pipeline on the hosts of one, and nothing of it after kill -9."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from acquisition.errors import EXIT_CONFIG, ConfigError
from experiments import testbed
from experiments.processes import temporary
from experiments.testbed import capability, topology
from experiments.testbed.__main__ import main
from experiments.testbed.remote import target
from tests.experiments.test_programs import command, processes_of
from tests.support import ROOT
from tests.support.waiting import eventually

TOPOLOGIES = sorted((ROOT / "experiments" / "testbed" / "topologies").glob("*.toml"))
SMALL = """
interval_seconds = 0.5

[hosts.store]
shard = true
filter = true

[hosts.near]
probe = true

[hosts.far]
count = 1
emulated = 2
entities = 3
link = { delay_seconds = 0.2, loss = 0.01, rate_bits_per_second = 1e7 }

[hosts.late]
probe = true
clock_offset_seconds = -30
"""
needs_namespaces = pytest.mark.skipif(
    bool(testbed.missing_for_shards()), reason=f"no testbed here: {testbed.missing_for_shards()}"
)


def written(directory: Path, text: str) -> Path:
    path = directory / "bed.toml"
    path.write_text(text)
    return path


def test_hosts_of_a_kind_are_numbered(tmp_path: Path) -> None:
    kinds = "[hosts.a]\nshard = true\nfilter = true\n[hosts.b]\ncount = 2\nemulated = 5\n[hosts.c]\nprobe = true\n"
    made = topology.load(written(tmp_path, kinds))
    assert [(host.name, host.first) for host in made.hosts] == [("a", 0), ("b1", 0), ("b2", 5), ("c", 10)]
    assert [host.samples for host in made.hosts] == [False, True, True, True]


@pytest.mark.parametrize("path", TOPOLOGIES, ids=lambda path: path.stem)
def test_every_topology_in_the_tree_loads(path: Path) -> None:
    assert topology.load(path).hosts


PIPELINE = "[hosts.a]\nshard = true\nfilter = true\nprobe = true\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            PIPELINE + "[hosts.b.link]\ndelay = 1\n",
            "key hosts.b.link.delay: unknown key; known are delay_seconds, ",
        ),
        (PIPELINE + "link = { loss = 2 }\n", "key hosts.a.link.loss: Expected `float` <= 1.0"),
        ("interval = 1\n" + PIPELINE, "key interval: unknown key; known are interval_seconds"),
        (PIPELINE + "emulated = 3\n", "key hosts.a: it has a probe, or emulates hosts"),
        (PIPELINE + "[hosts.B]\n", "key hosts.B: a name has a-z, 0-9 and -"),
        (PIPELINE + "[hosts.b1]\n[hosts.b]\ncount = 2\n", "two hosts have the same name"),
        (PIPELINE + "[hosts.b]\ncount = 240\n", "241 hosts: a testbed has at most 240"),
        ("[hosts.a]\nshard = true\nprobe = true\n", "no host has filter = true"),
        ("[hosts.a]\nshard = true\nfilter = true\n", "no host samples: set probe = true, or emulated"),
        ("hosts = 3\n", "key hosts: expected a table [hosts.NAME]"),
        (PIPELINE + "[hosts]\nb = 3\n", "bed.toml: "),
    ],
)
def test_a_wrong_file_is_refused_by_its_key(text: str, words: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as error:
        topology.load(path)
    assert str(error.value).startswith(f"{path}: ")
    assert words in str(error.value)


def test_a_wrong_file_ends_the_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(written(tmp_path, "[hosts.a]\nshard = true\n"))]) == EXIT_CONFIG
    assert capsys.readouterr().err.startswith("testbed: ")


def test_machines_are_reached_as_ansible_reaches_them() -> None:
    given = {
        "ansible_host": "192.0.2.7", "ansible_port": 2222, "ansible_user": "admin",
        "ansible_ssh_private_key_file": "/k", "ansible_ssh_common_args": "-F '/a b'",
    }  # fmt: skip
    made = target("node1", given)
    assert made.address == made.ssh[-1] == "192.0.2.7"
    assert made.ssh[-9:-1] == ["-p", "2222", "-l", "admin", "-i", "/k", "-F", "/a b"]
    assert target("node1", {}).ssh[-1] == "node1"


def test_a_directory_is_removed_by_whoever_comes_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = ("left", "held", "new", "other")
    left, held, new, other = (tmp_path / (name if name == "other" else temporary.PREFIX + name) for name in names)
    for place in (left, held, new, other):
        place.mkdir()
    for place in (left, held, other):
        (place / "lock").touch()
    with (held / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with temporary.made() as mine:
            assert set(tmp_path.iterdir()) == {held, new, other, mine}
    assert set(tmp_path.iterdir()) == {held, new, other}


@needs_namespaces
def test_a_pipeline_runs_on_hosts_with_links_and_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    shared = set(os.listdir("/dev/shm"))
    path = written(tmp_path, SMALL)
    assert main([str(path), "--seconds", "2", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert found["passed"]
    hosts = {row["host"]: row for row in found["hosts"]}
    assert [hosts[name]["runs"] for name in ("store", "near", "far1")] == [
        ["shard", "filter"],
        ["probe"],
        ["2 emulated"],
    ]
    assert hosts["near"]["states"] == {"current": 1}
    assert sum(hosts["far1"]["states"].values()) == 2
    assert hosts["far1"]["states"].keys() <= {"current", "late"}  # on a busy machine a frame may miss its grace
    assert hosts["far1"]["age_p50_seconds"] > 0.2
    for name in ("near", "far1"):
        assert hosts[name]["made"] >= hosts[name]["applied"] > 0
        assert hosts[name]["lost"] == 0
        assert hosts[name]["readings"] >= 4
    if lack := capability.missing_clocks():
        assert found["skipped"] == {"late": lack}
        assert f"testbed: SKIPPED late: {lack}" in printed.err
    else:
        assert 30.0 < hosts["late"]["age_p50_seconds"] < 40.0
    assert list(tmp_path.iterdir()) == [path]
    assert not {name for name in set(os.listdir("/dev/shm")) - shared if "faketime" in name}


@needs_namespaces
def test_nothing_runs_on_after_kill_9(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = subprocess.Popen(
        command("testbed", str(written(tmp_path, SMALL)), "--seconds", "600"),
        cwd=ROOT, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    eventually(
        lambda: run.poll() is not None or any("emulation.generator" in part for part in processes_of(tmp_path)), 60
    )
    run.send_signal(signal.SIGKILL)
    out, err = run.communicate(timeout=60)
    assert run.returncode == -signal.SIGKILL, (out, err)
    eventually(lambda: not processes_of(tmp_path), 60)
    eventually(lambda: not any(name.startswith(f"sp{run.pid}u") for name in os.listdir("/sys/class/net")), 60)
    assert len(list(tmp_path.glob(f"{temporary.PREFIX}*"))) == 1
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary.made():
        assert len(list(tmp_path.glob(f"{temporary.PREFIX}*"))) == 1
    assert not list(tmp_path.glob(f"{temporary.PREFIX}*"))
