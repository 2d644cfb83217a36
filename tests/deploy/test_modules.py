"""Ansible's modules of deploy/library: files of a host, facts, wheels. Without Ansible, in this process."""

from __future__ import annotations

import grp
import os
import pwd
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ansible", reason="ansible-core is of the extra test")

from callback_plugins import findings
from library import host_facts, host_files, python_environment, wheelhouse

from tests.support.processes import started
from tests.support.waiting import eventually

ME = {"owner": pwd.getpwuid(os.geteuid()).pw_name, "group": grp.getgrgid(os.getegid()).gr_name}


def wanted(path: Path, **more: Any) -> dict[str, Any]:
    return (
        {"path": str(path), "kind": "file", "content": None, "secret": None, "target": None, "mode": None} | ME | more
    )


def test_a_file_is_written_once_with_its_mode(tmp_path: Path) -> None:
    file = wanted(tmp_path / "new" / "file", content="one\n", mode="0640")
    difference = host_files.settle(file)
    assert difference is not None
    assert "one" in difference["after"]
    assert (tmp_path / "new" / "file").read_text() == "one\n"
    assert (tmp_path / "new" / "file").stat().st_mode & 0o7777 == 0o640
    assert host_files.settle(file) is None
    assert host_files.settle(file | {"mode": "0600"}) is not None
    assert (tmp_path / "new" / "file").stat().st_mode & 0o7777 == 0o600
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["file"]


def test_a_secret_is_in_no_difference(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("old secret")
    difference = host_files.settle(wanted(tmp_path / "key", secret="new secret", mode="0600"))
    assert difference is not None
    assert "secret" not in difference["before"] + difference["after"]


def test_in_check_mode_nothing_changes(tmp_path: Path) -> None:
    assert host_files.settle(wanted(tmp_path / "file", content=""), check=True) is not None
    assert not (tmp_path / "file").exists()


def test_links_directories_and_what_shall_not_be(tmp_path: Path) -> None:
    for one in (wanted(tmp_path / "d", kind="directory", mode="0750"), wanted(tmp_path / "l", kind="link", target="d")):
        assert host_files.settle(one) is not None
        assert host_files.settle(one) is None
    assert os.readlink(tmp_path / "l") == "d"
    (tmp_path / "d" / "inside").mkdir()
    (tmp_path / "d" / "inside" / "link").symlink_to("/")
    for name in ("l", "d"):
        assert host_files.settle(wanted(tmp_path / name, kind="absent")) is not None
        assert host_files.settle(wanted(tmp_path / name, kind="absent")) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("more", "word"),
    [
        ({"owner": "nobody-of-that-name", "content": ""}, "there is no user nobody-of-that-name"),
        ({"group": "no-such-group", "content": ""}, "there is no group no-such-group"),
        ({}, "needs content or secret"),
        ({"kind": "link"}, "needs a target"),
        ({"content": "", "path": "directory"}, "is a directory, and shall be a file"),
    ],
)
def test_what_cannot_be_is_told(tmp_path: Path, more: dict[str, Any], word: str) -> None:
    (tmp_path / "directory").mkdir()
    asked = wanted(tmp_path / "x") | more
    asked["path"] = str(tmp_path / more.get("path", "x"))
    with pytest.raises(host_files.Refused, match=word):
        host_files.settle(asked)


def test_facts_of_this_machine() -> None:
    found = host_facts.look(["coreutils", "no-such-package"])
    assert found["cores"]
    assert set(found["usable"]) <= set(found["cores"])
    assert found["usable"]
    assert found["memory"] > 1 << 20
    assert "no-such-package" not in found["packages"]
    assert "root" in found["users"]


def test_cores_and_ports_are_read() -> None:
    assert host_facts.cores("0-2,5\n") == [0, 1, 2, 5]
    line = " 0: 0100007F:1DB0 00000000:0000 {} 0:0 0:0 0 0 0 {} 1"
    listens = "\n".join(["  sl  local", line.format("0A", 4711), line.format("01", 1)])
    assert host_facts.listening(listens) == {"4711": 7600}


def test_of_which_environment_a_process_is() -> None:
    line = "7f0-7f1 r-xp 00000000 08:01 77 /opt/shardpulse/0123-probes/lib/python3.11/site-packages/hiredis.so\n"
    assert host_facts.environment_in(f"7f0-7f1 r-xp 0 08:01 7 /usr/bin/python3.11\n{line}") == "0123-probes"
    assert host_facts.environment_in("") == ""


def test_wheels_are_packed_by_what_they_hold(tmp_path: Path) -> None:
    one, two = tmp_path / "a-1.whl", tmp_path / "b-1.whl"
    one.write_text("a")
    two.write_text("b")
    name = wheelhouse.digest([one, two])
    wheelhouse.pack([one, two], tmp_path / "packed" / f"{name}.tar")
    (tmp_path / "out").mkdir()
    with tarfile.open(tmp_path / "packed" / f"{name}.tar") as packed:
        python_environment.unpack(packed, tmp_path / "out")
    assert (tmp_path / "out" / "b-1.whl").read_text() == "b"
    two.write_text("c")
    assert wheelhouse.digest([one, two]) != name


def test_a_wheel_that_is_a_link_is_packed_whole(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("a")
    link = tmp_path / "a-1.whl"
    link.symlink_to(tmp_path / "kept")
    wheelhouse.pack([link], tmp_path / "links.tar")
    (tmp_path / "out").mkdir()
    with tarfile.open(tmp_path / "links.tar") as packed:
        python_environment.unpack(packed, tmp_path / "out")
    assert (tmp_path / "out" / "a-1.whl").read_text() == "a"
    assert not (tmp_path / "out" / "a-1.whl").is_symlink()


def test_a_host_gets_the_wheels_that_its_parts_need() -> None:
    requires = {
        "shardpulse-1-cp311-abi3-linux.whl": [
            "hiredis>=3; extra == 'probe'", "numpy; extra == 'filter'", "web-server[fast]; extra == 'serve'",
            "shardpulse[probe,filter]; extra == 'all'",
        ],
        "hiredis-3-cp311-cp311-linux.whl": [],
        "hiredis-3-cp313-cp313-linux.whl": ["backport; python_version >= '3.13'", "old; python_version < '3'"],
        "web_server-1-py3-none-any.whl": ["loop; extra == 'fast'", "slow; extra == 'slow'"],
        "numpy-2-cp311-cp311-linux.whl": ["shardpulse"], "backport-1-py3-none-any.whl": [],
        "loop-1-py3-none-any.whl": [], "old-1-py3-none-any.whl": [], "slow-1-py3-none-any.whl": [],
    }  # fmt: skip
    wheels = {Path(name): lines for name, lines in requires.items()}

    def names(*extras: str) -> set[str]:
        return {str(wheel).partition("-")[0] for wheel in wheelhouse.needed(wheels, extras)} - {"shardpulse"}

    assert names() == set()
    assert names("probe") == {"hiredis", "backport"}
    assert names("filter") == {"numpy"}
    assert names("serve") == {"web_server", "loop"}
    assert names("all") == {"hiredis", "backport", "numpy"}
    assert len(wheelhouse.needed(wheels, ["probe"])) == 4  # of each Python


def test_a_python_that_lacks_wheels_is_named() -> None:
    requires = {
        "shardpulse-1-cp311-abi3-manylinux_2_17_x86_64.whl": ["hiredis; extra == 'probe'", "tool; extra == 'probe'"],
        "hiredis-3-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl": [],
        "hiredis-3-cp312-cp312-musllinux_1_2_x86_64.whl": [],
        "tool-1-py2.py3-none-any.whl": ["backport; python_version >= '3.13'"],
    }  # fmt: skip
    found = wheelhouse.lacking({Path(name): lines for name, lines in requires.items()}, ["probe"])
    assert found == {
        "3.11 aarch64": ["hiredis", "shardpulse"], "3.12 aarch64": ["hiredis", "shardpulse"],
        "3.13 aarch64": ["backport", "hiredis", "shardpulse"], "3.13 x86_64": ["backport", "hiredis"],
    }  # fmt: skip


def test_older_environments_go(tmp_path: Path) -> None:
    for number, name in enumerate(("oldest", "older", "now")):
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (number, number))
    python_environment.point(tmp_path / "current", "now")
    python_environment.remove_others(tmp_path, "now", "", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["current", "now", "older"]


def test_the_environment_that_was_in_use_outlives_newer_ones(tmp_path: Path) -> None:
    for number, name in enumerate(("running", "newer", "now")):  # somebody had gone back from the newer one
        (tmp_path / name).mkdir()
        os.utime(tmp_path / name, (number, number))
    python_environment.remove_others(tmp_path, "now", "running", 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["now", "running"]


def test_a_secret_is_not_in_the_journal_either(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[str] = []
    monkeypatch.setattr(host_files.Module, "log", lambda _, message, **more: said.append(message))
    module = object.__new__(host_files.Module)
    module.params = {"files": [wanted(tmp_path / "key", secret="hush\n"), wanted(tmp_path / "b", content="x")]}
    module._log_invocation()
    assert said == [f"files: {tmp_path}/key {tmp_path}/b"]


def test_what_a_host_calls_itself_reaches_no_terminal() -> None:
    rename = "import time; open('/proc/self/comm', 'wb').write(b'e\\x1b]0;\\xc2\\x9bx'); time.sleep(600)"
    with started([sys.executable, "-c", rename]) as process:
        eventually(
            lambda: host_facts._owner(str(process.pid)) == "e\N{REPLACEMENT CHARACTER}]0;\N{REPLACEMENT CHARACTER}x"
        )
    assert (
        findings.reason_of({"msg": "a\x1b[2J\nb\u202e."}) == "a\N{REPLACEMENT CHARACTER}[2J b\N{REPLACEMENT CHARACTER}"
    )
