"""A capture of /proc and /sys gives what the live probe would, whatever it holds and wherever it is replayed."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acquisition.errors import EXIT_DATA, EXIT_OK, DataError, NoInputError, UsageError
from probes import replay_command
from probes.captures.replay_proc import Tree
from probes.figures import process_table as tables
from probes.sampling import native
from probes.sources import procfs_host
from tests.support import FIXTURES
from tests.support.untested import require_native

UUID = "9b793bd8-30b0-400d-8196-6264858d3304"
Documents = list[dict[str, Any]]
Replay = Callable[..., Documents]


@pytest.fixture(params=["native", "python"])
def step(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either step of the probe."""
    if request.param == "native":
        require_native(native.PROCESSES)
    else:
        for module in (procfs_host, tables):
            monkeypatch.setattr(module, "PROCESSES", None)


@pytest.fixture
def replay(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Replay:
    monkeypatch.setenv("SHARDPULSE_CONFIG", "")

    def run(directory: Path, *options: str, code: int = EXIT_OK) -> Documents:
        assert replay_command.main(["proc", str(directory), *options]) == code
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return run


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Two ticks of a host and of the process 4711."""
    for number, name in enumerate(("before", "after")):
        shutil.copytree(FIXTURES / "proc" / name, tmp_path / f"t{number}" / "proc")
    return tmp_path


def process(capture: Path, tick: int, pid: int, start: int = 100, command: str = "sleep", cpu: int = 0) -> Path:
    """A process in a tick; the directory of its files."""
    base = capture / f"t{tick}" / "proc" / str(pid)
    base.mkdir(parents=True)
    fields = ["S", "1", *["0"] * 9, str(cpu), *["0"] * 5, "2", "0", str(start), "4096", "1", *["0"] * 30]
    (base / "stat").write_text(f"{pid} ({command}) {' '.join(fields)}\n")
    (base / "status").write_text("Uid:\t1\t1234\t1\t1\nvoluntary_ctxt_switches:\t1\nnonvoluntary_ctxt_switches:\t1\n")
    return base


def virtual_machine(capture: Path, tick: int, pid: int) -> Path:
    base = process(capture, tick, pid, command="qemu-system-x86")
    arguments = ["/usr/bin/qemu-system-x86_64", "-name", "guest=web", "-uuid", UUID, "-smp", "2", "-m", "1024"]
    (base / "cmdline").write_bytes(b"\0".join(word.encode() for word in arguments) + b"\0")
    (base / "exe").symlink_to("/usr/bin/qemu-system-x86_64")
    return base


def facts(capture: Path, **changed: Any) -> None:
    found = {"host": "h1", "hertz": 100, "page_size": 4096, "times": {"t0": [1000.25, 7.0], "t1": [1002.25, 9.0]}}
    (capture / "facts.json").write_text(json.dumps(found | changed))


def rows(documents: Documents, resource_set: str) -> list[dict[str, dict[str, Any]]]:
    """Of each tick the entities of a resource set by name."""
    return [
        {entity["name"]: entity for entity in document["entities"]}
        for document in documents
        if document["resource_set"] == resource_set
    ]


def codes(entity: dict[str, Any]) -> set[str]:
    return {sample["code"] for sample in entity["invalid"].values()}


@pytest.mark.usefixtures("step")
def test_ticks_are_a_second_apart_and_named_like_a_dry_run(capture: Path, replay: Replay) -> None:
    documents = replay(capture)
    assert [(each["time"], each["resource_set"]) for each in documents] == [
        (0.0, "host"), (0.0, "processes"), (1.0, "host"), (1.0, "processes"),
    ]  # fmt: skip
    assert [each["time"] for each in replay(capture, "--interval", "10")] == [0.0, 0.0, 10.0, 10.0]
    assert set(documents[0]) == {"time", "tick", "resource_set", "entities"}
    first, second = rows(documents, "host")
    assert first["host"]["invalid"]["cpu_user_ratio"]["code"] == "FIRST"
    assert second["host"]["metrics"]["cpu_user_ratio"] > 0
    assert rows(documents, "processes")[1]["a (b) c"]["metrics"]["cpu_ratio"] >= 0


@pytest.mark.usefixtures("step")
def test_facts_of_the_machine_come_from_the_capture(capture: Path, replay: Replay) -> None:
    for tick in range(2):
        process(capture, tick, 70, cpu=1000 * tick)
        (capture / f"t{tick}" / "proc" / "stat").write_text(
            "cpu  1 0 1 9 0 0 0 0 0 0\n" + "".join(f"cpu{n} 1 0 1 9 0 0 0 0 0 0\n" for n in range(12))
        )
    facts(capture, hertz=250, page_size=65536)
    documents = replay(capture)
    assert [each["time"] for each in documents if each["resource_set"] == "host"] == [1000.25, 1002.25]
    assert list(rows(documents, "host")[1]) == ["h1"]
    assert rows(documents, "host")[1]["h1"]["metrics"]["cpu_count"] == 12
    found = rows(documents, "processes")[1]["sleep"]["metrics"]
    assert found["memory_resident_bytes"] == 65536
    assert found["cpu_ratio"] == 2.0  # 1000 ticks of 250 Hz in two seconds, which two threads on twelve CPUs can take
    assert list(rows(replay(capture, "--host", "mine"), "host")[0]) == ["mine"]
    found = rows(replay(capture, "--cores", "1", "--memory", "32K"), "processes")[1]["sleep"]["invalid"]
    assert {found[name]["code"] for name in ("cpu_ratio", "memory_resident_bytes")} <= {"RANGE", "RATE"}


@pytest.mark.usefixtures("step")
def test_process_that_ends_comes_or_reuses_a_pid(capture: Path, replay: Replay) -> None:
    process(capture, 0, 70, command="ends")
    process(capture, 1, 71, command="comes")
    process(capture, 0, 72, start=100, command="old")
    process(capture, 1, 72, start=900, command="new")
    first, second = rows(replay(capture), "processes")
    assert set(first) == {"a (b) c", "ends", "old"}
    assert set(second) == {"a (b) c", "comes", "new"}
    for name in ("comes", "new"):
        assert second[name]["invalid"]["cpu_ratio"] == {"value": None, "code": "FIRST"}


@pytest.mark.usefixtures("step")
def test_virtual_machine_with_links_and_traffic_of_its_tap(capture: Path, replay: Replay) -> None:
    for tick in range(2):
        base = virtual_machine(capture, tick, 80)
        for name in ("fd", "fdinfo"):
            (base / name).mkdir()
        (base / "fd" / "9").symlink_to("/dev/net/tun")
        (base / "fdinfo" / "9").write_text("pos:\t0\niff:\ttap0\n")
        with (capture / f"t{tick}" / "proc" / "net" / "dev").open("a") as file:
            file.write(f"  tap0: {1000 * tick} 0 0 0 0 0 0 0 {5000 * tick} 0 0 0 0 0 0 0\n")
    found = rows(replay(capture), "vms")[1]["web"]
    assert found["stable"] == UUID
    assert found["metrics"]["network_receive_bytes_per_second"] == 5000.0
    assert found["metrics"]["network_transmit_bytes_per_second"] == 1000.0


@pytest.mark.usefixtures("step")
def test_file_that_vanishes_is_missing(capture: Path, replay: Replay) -> None:
    for name in ("meminfo", "net/dev", "vmstat", "stat", "pressure/cpu", "4711/io"):
        (capture / "t1" / "proc" / name).unlink()
    documents = replay(capture)
    host = rows(documents, "host")[1]["host"]
    assert not host["metrics"].keys() & {
        "memory_total_bytes", "network_receive_bytes_per_second", "block_in_bytes_per_second", "cpu_user_ratio",
        "pressure_cpu_some_ratio",
    }  # fmt: skip
    assert codes(host) == {"MISSING"}
    assert rows(documents, "processes")[1]["a (b) c"]["invalid"]["disk_read_bytes_per_second"]["code"] == "MISSING"


def test_users_are_those_of_the_capture(capture: Path, replay: Replay, tmp_path: Path) -> None:
    process(capture, 0, 70, command="theirs")
    config = tmp_path / "shardpulse.toml"
    config.write_text('[probe.processes]\nusers = ["1234"]\n')
    assert set(rows(replay(capture, "--config", str(config)), "processes")[0]) == {"theirs"}


def test_link_out_of_a_tick_is_not_followed(capture: Path, replay: Replay) -> None:
    for target in ("/proc/stat", "../../../../../../../../proc/stat"):
        (capture / "t1" / "proc" / "stat").unlink()
        (capture / "t1" / "proc" / "stat").symlink_to(target)
        documents = replay(capture, "--strict", code=EXIT_DATA)
        assert "cpu_user_ratio" in rows(documents, "host")[1]["host"]["invalid"]
    for tick in range(2):
        base = capture / f"t{tick}" / "proc"
        (base / "stat").unlink()
        (base / "stat").symlink_to("kept")
        shutil.copy(FIXTURES / "proc" / "after" / "stat", base / "kept")
    assert "cpu_count" in rows(replay(capture), "host")[1]["host"]["metrics"]


def test_what_cannot_be_read_is_said(capture: Path, replay: Replay, capsys: pytest.CaptureFixture[str]) -> None:
    facts(capture, times={"t1": [5.0, 5.0]})
    replay_command.main(["proc", str(capture)])
    assert "left out: t0: no time in facts.json" in capsys.readouterr().err
    assert {each["time"] for each in replay(capture, "--strict", code=EXIT_DATA)} == {5.0}


def test_bad_input_is_an_error_with_its_exit_code(capture: Path, tmp_path: Path) -> None:
    def fails(kind: type[Exception], text: str, *arguments: str) -> None:
        with pytest.raises(kind, match=text):
            replay_command.main(["proc", *arguments])

    fails(NoInputError, "No such file", str(tmp_path / "nowhere"))
    fails(NoInputError, "Not a directory", str(FIXTURES / "proc" / "before" / "stat"))
    fails(NoInputError, "expected directories t0, t1", str(FIXTURES))
    fails(UsageError, "omit --push", str(capture), "--push")
    for name, value in (("hertz", 0), ("page_size", "x"), ("times", {}), ("times", [1]), ("times", {"t0": [1, -1]})):
        facts(capture, **{name: value})
        fails(DataError, "facts.json: invalid facts of a capture", str(capture))
    for text in ("", "[]", "{", "[" * 100_000, '{"hertz": 1}'):
        (capture / "facts.json").write_text(text)
        fails(DataError, "facts.json: invalid facts of a capture", str(capture))
    (capture / "facts.json").unlink()
    (capture / "t2").mkdir()
    fails(DataError, "t2 is not a tick of a capture: no directory proc", str(capture))


def test_working_tree_becomes_each_tick_in_place(tmp_path: Path) -> None:
    first, second, root = (tmp_path / name for name in ("first", "second", "root"))
    for directory in (first, second):
        (directory / "proc" / "net").mkdir(parents=True)
        (directory / "proc" / "net" / "dev").write_text(directory.name)
    (first / "proc" / "was").mkdir()
    (first / "proc" / "was" / "deep").write_text("x")
    (second / "proc" / "was").write_text("a file now")
    (first / "proc" / "turns").write_text("x")
    (second / "proc" / "turns").mkdir()
    (second / "proc" / "4711").mkdir()
    (second / "proc" / "4711" / "exe").symlink_to("/nowhere")
    tree = Tree(str(root))
    tree.become(str(first))
    with (root / "proc" / "net" / "dev").open() as file:
        for tick in (second, first, second):
            tree.become(str(tick))
            file.seek(0)
            assert file.read() == tick.name
    found = {os.path.relpath(path, root) for path in root.rglob("*")}
    assert found == {os.path.relpath(path, second) for path in second.rglob("*")}
    assert not tree.left_out


names = st.sampled_from(
    ["stat", "meminfo", "vmstat", "net/dev", "pressure/cpu", "4711/stat", "4711/io", "4711/status", "4711/schedstat",
     "4711/cmdline", "sys/kernel/random/boot_id", "4711/fd/3", "4711/fdinfo/3", "loadavg"]
)  # fmt: skip
texts = st.binary(max_size=200) | st.sampled_from([b"", b"cpu", b"4711 (x) S", b"\xff" * 600, b"9" * 5000])


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.integers(0, 2), names, texts | st.none()), max_size=8))
def test_garbage_never_ends_a_replay(
    changes: list[tuple[int, str, bytes | None]], tmp_path_factory: pytest.TempPathFactory, replay: Replay
) -> None:
    capture = tmp_path_factory.mktemp("garbage")
    for number, name in enumerate(("before", "after", "after")):
        shutil.copytree(FIXTURES / "proc" / name, capture / f"t{number}" / "proc")
    for tick, name, text in changes:
        path = capture / f"t{tick}" / "proc" / name
        if text is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text)
    documents = replay(capture)
    assert len([each for each in documents if each["resource_set"] == "host"]) == 3
