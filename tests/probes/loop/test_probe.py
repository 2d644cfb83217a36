"""The probe as a process: real shards, real signals, real kills."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from acquisition import compiled
from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_CONFIG, EXIT_INTERNAL, EXIT_NO_INPUT, EXIT_UNAVAILABLE, EXIT_USAGE
from acquisition.link.cluster import Cluster
from acquisition.model.codes import ORDER, RANGE, TIMEOUT
from acquisition.model.identity import host_id
from acquisition.model.metric import resource_set_id
from acquisition.shards.servers.launch import Shards
from acquisition.wire import frame, keys, status, table
from acquisition.wire.frame import Frame, Samples
from acquisition.wire.table import Table
from probes.checks import build_pipeline
from probes.loop.account import reads_others
from probes.loop.agent_settings import decode, encode
from probes.loop.dry_run import row
from probes.loop.module import Module
from probes.metrics import HOST
from probes.sampling import native
from probes.sampling.host_facts import HostFacts
from probes.sampling.reading import Reading
from probes.sampling.schedule import MARGIN, Schedule
from probes.sources.procfs_host import HostSource
from tests.support import ROOT
from tests.support.processes import started
from tests.support.waiting import eventually

PATIENT = 20.0
COMMAND = [sys.executable, "-m", "probes.probe_command"]

needs_tools = pytest.mark.needs("vmstat", "pidstat")


class Host:
    """A probe with a configuration of its own on the session's shards."""

    def __init__(self, path: Path, cluster: Cluster, shards: Shards, name: str) -> None:
        self.path = path
        self.name = name
        self.config = path / "shardpulse.toml"
        self.errors = path / "errors.txt"
        self.ring = path / "ring"
        self._cluster = cluster
        self._shards = shards
        self.process: subprocess.Popen[bytes] | None = None

    def configure(self, extra: str = "", interval: float = 0.2) -> None:
        addresses = ", ".join(f'"{address}"' for address in self._shards.addresses)
        self.config.write_text(
            f'[host]\nname = "{self.name}"\n[shards]\naddresses = [{addresses}]\n[probe]\n'
            f'interval_seconds = {interval}\nring_path = "{self.ring}"\ndiscovery_interval_seconds = 0.5\n'
            f"position_interval_seconds = 0.2\n{extra}\n"
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        self.stop()
        with self.errors.open("ab") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, "--config", str(self.config), *arguments], cwd=ROOT, stderr=errors, stdout=subprocess.PIPE
            )
        return self.process

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()
            self.process = None

    def said(self) -> str:
        return self.errors.read_text()

    def frames(self, resource_set: str = "host") -> list[Frame]:
        """The sample frames of a resource set that are in the shards."""
        return [each for each in self._entries(resource_set) if each.kind == frame.KIND_SAMPLES]

    def tables(self, resource_set: str = "host") -> list[Table]:
        return [table.decode(each.payload) for each in self._entries(resource_set) if each.kind == frame.KIND_TABLE]

    def _entries(self, resource_set: str) -> list[Frame]:
        number = host_id(self.name)
        tag = keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(number, keys.DEFAULT_PARTITIONS)]
        reply = self._cluster.call(keys.raw(tag), "XRANGE", keys.raw(tag), "-", "+")
        found = [frame.decode(fields[1]) for _, fields in reply or []]
        return [each for each in found if each.resource_set == resource_set_id(resource_set) and each.host == number]

    def status(self) -> dict[str, Any] | None:
        number = host_id(self.name)
        tag = keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(number, keys.DEFAULT_PARTITIONS)]
        data = self._cluster.call(keys.raw(tag), "GET", keys.status(tag, number))
        return status.decode(data).rest if data else None


@pytest.fixture
def host(tmp_path: Path, cluster: Cluster, shards: Shards, request: pytest.FixtureRequest) -> Iterator[Host]:
    found = Host(tmp_path, cluster, shards, f"host-{request.node.name}"[:60])
    found.configure()
    yield found
    found.stop()


def numbers(frames: list[Frame]) -> list[int]:
    return sorted({each.sequence for each in frames})


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def alive(pid: int) -> bool:
    try:
        return state(pid) != "Z"
    except OSError:
        return False


def test_frames_and_tables_arrive_and_sigterm_ends_in_order(host: Host) -> None:
    probe = host.start()
    eventually(lambda: len(host.frames()) >= 5 and len(host.frames("processes")) >= 5)
    probe.send_signal(signal.SIGTERM)
    assert probe.wait(PATIENT) == 0, host.said()
    frames, tables = host.frames(), host.tables()
    assert tables[0].complete
    assert tables[0].source == "procfs"
    assert [metric.name for metric in tables[0].metrics] == [metric.name for metric in HOST.metrics]
    assert [entity.name for entity in tables[0].entities] == [host.name]
    assert numbers(frames) == list(range(2, len(frames) + 2))  # the table is number 1
    assert not frames[-1].codes or frames[-1].codes.count(0) > 20
    known = {entity.id for each in host.tables("processes") for entity in each.entities}
    for each in host.frames("processes"):
        assert {int.from_bytes(each.ids[i : i + 8], "little") for i in range(0, len(each.ids), 8)} <= known
    account = host.status()
    assert account is not None
    assert account["probe"]["ticks"] >= 5
    ticks = [each.tick for each in frames]
    assert ticks == sorted(ticks)
    if len(set(ticks)) < len(ticks):  # a sample that was late for its tick is of the next one, as is the one after it
        assert account["probe"]["latest_seconds"] > MARGIN * 0.2
    assert ticks[-1] - ticks[0] + 1 - len(ticks) <= account["probe"]["missed_ticks"]  # of a busy machine
    assert account["sources"] == {"host": "procfs", "processes": "procfs", "vms": "procfs"}


@pytest.mark.parametrize("pure", ["", "1"])
def test_a_probe_and_status_say_which_step_runs_and_what_to_do(
    pure: str, host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(compiled.SWITCH, pure)
    host.start()
    eventually(lambda: "; sending to" in host.said())
    found = eventually(host.status, seconds=PATIENT)
    name = compiled.PYTHON if pure or native.PROCESSES is None else compiled.NATIVE
    assert found["probe"]["step"] == name
    assert found["probe"]["reads_others"] == reads_others()
    assert found["probe"]["machine"].endswith(f"boot id {Path('/proc/sys/kernel/random/boot_id').read_text().strip()}")
    assert f"; {compiled.chosen(name == compiled.NATIVE, compiled.PYTHON).text}; sending to" in host.said()
    assert (f"{compiled.SWITCH} is set" in host.said()) == bool(pure)
    shardpulse(["status", "--json", "--config", str(host.config)])
    notes = [row for row in json.loads(capsys.readouterr().out)["findings"] if row["about"] == "probes"]
    assert len(notes) == (name == compiled.PYTHON)
    for note in notes:
        assert note["kind"] == "note"
        assert note["text"].startswith("1 of 1 read /proc in Python")
        assert note["text"].endswith("the remedy")


@pytest.mark.parametrize("loaded", [True, False])
def test_who_has_no_compiled_step_is_told_what_to_install(loaded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(compiled.SWITCH, raising=False)
    told = compiled.chosen(loaded, compiled.PYTHON).text
    assert ("apt install gcc python3-dev" in told) == (not loaded)


def test_a_bounded_run(host: Host) -> None:
    probe = host.start("--ticks", "3")
    assert probe.wait(PATIENT) == 0, host.said()
    assert len(host.frames()) == 3


def test_a_killed_probe_goes_on_with_its_numbers(host: Host) -> None:
    probe = host.start()
    eventually(lambda: len(host.frames()) >= 3)
    probe.kill()
    probe.wait()
    before = max(numbers(host.frames()))
    host.start("--ticks", "3").wait(PATIENT)
    after = host.frames()
    assert len({each.epoch for each in after}) == 1
    assert max(numbers(after)) > before
    (table,) = {*range(2, max(numbers(after)) + 1)} - {*numbers(after)}
    assert before < table, "of the second run, after what the first one had left in its ring"


def test_new_processes_are_named_before_their_first_samples(host: Host) -> None:
    host.configure('[probe.processes]\ncommands = ["sleep 7654323"]\ndaemons = false')
    host.start()
    eventually(host.frames)
    with started(["sleep", "7654323"]) as child:
        eventually(lambda: any(each.entities for each in host.frames("processes")))
    eventually(lambda: host.frames("processes")[-1].entities == 0)
    tables = host.tables("processes")
    assert any(entity.labels["pid"] == str(child.pid) for each in tables for entity in each.entities)
    assert len(host.frames("processes")) < len(host.frames())  # a set without entities is silent


@pytest.mark.alone
def test_sighup_applies_a_good_configuration_and_refuses_a_bad_one(host: Host) -> None:
    probe = host.start()
    eventually(lambda: len(host.frames()) >= 2)
    host.config.write_text(host.config.read_text().replace("interval_seconds = 0.2", "intervall_seconds = 0.1", 1))
    probe.send_signal(signal.SIGHUP)
    eventually(lambda: "configuration unchanged" in host.said())
    assert "intervall_seconds" in host.said()
    assert "line" in host.said()
    count = len(host.frames())
    eventually(lambda: len(host.frames()) > count + 2)
    host.configure('[probe.host]\nmetrics = ["cpu_idle_ratio", "memory_free_bytes"]')
    probe.send_signal(signal.SIGHUP)
    eventually(lambda: host.frames()[-1].metrics == 2)
    probe.send_signal(signal.SIGTERM)
    assert probe.wait(PATIENT) == 0
    frames = host.frames()
    assert len({each.epoch for each in frames}) == 1
    tables = len(host.tables())
    assert tables >= 2
    assert len(numbers(frames)) + tables == max(numbers(frames))  # no number was lost or given twice
    ticks = sorted({each.tick for each in frames})
    assert ticks[-1] - ticks[0] + 1 - len(ticks) <= 1  # no tick waited for the compiler


def test_secrets_are_not_on_the_command_line(host: Host, tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text("s3cr3t-in-a-file\n")
    secret.chmod(0o600)
    host.config.write_text(
        host.config.read_text().replace("[shards]", f'[shards]\nusername = "probe"\npassword_file = "{secret}"')
    )
    probe = host.start("--seconds", "5")
    eventually(lambda: b"shardpulse: probe" in Path(f"/proc/{probe.pid}/cmdline").read_bytes())
    for name in ("cmdline", "environ"):
        assert b"s3cr3t" not in Path(f"/proc/{probe.pid}/{name}").read_bytes()
    eventually(lambda: "WRONGPASS" in host.said() or "NOPERM" in host.said() or "AUTH" in host.said())


def test_shards_that_cannot_be_reached_do_not_stop_the_ticks(host: Host) -> None:
    host.config.write_text(host.config.read_text().replace("addresses = [", 'addresses = ["127.0.0.1:1"] # ', 1))
    probe = host.start("--ticks", "5")
    started = time.monotonic()
    assert probe.wait(PATIENT) == 0
    assert time.monotonic() - started < 15
    assert "unsent frames" in host.said()
    host.configure()
    assert host.start("--ticks", "2").wait(PATIENT) == 0
    assert len(host.frames()) == 7  # the five of the first run came with the second


@needs_tools
def test_tools_end_with_the_probe_and_a_hung_one_times_out(host: Host) -> None:
    host.configure(
        '[probe.host]\nsource = "vmstat"\n[probe.processes]\nsource = "pidstat"\npids = [1]\ndaemons = false', 1.0
    )
    probe = host.start()
    eventually(lambda: len(host.frames("processes")) >= 2 and len(host.frames()) >= 2)
    tools = children(probe.pid)
    assert len(tools) == 2
    assert {host.tables(name)[0].source for name in ("host", "processes")} == {"vmstat", "pidstat"}
    vmstat = next(pid for pid in tools if "vmstat" in Path(f"/proc/{pid}/comm").read_text())
    os.kill(vmstat, signal.SIGSTOP)
    stopped = host.frames()[-1].tick
    eventually(lambda: any(set(each.codes) == {TIMEOUT} for each in host.frames()))
    eventually(
        lambda: (
            len(host.frames()) and not set(host.frames()[-1].codes) & {TIMEOUT} and host.frames()[-1].tick > stopped + 3
        )
    )
    ticks = [each.tick for each in host.frames()]
    assert ticks == sorted(set(ticks))
    assert len(ticks) >= ticks[-1] - ticks[0]  # every tick has a frame, but for one that may slip
    others = [each.tick for each in host.frames("processes")]
    assert max(b - a for a, b in pairwise(others)) <= 2  # pidstat went on meanwhile
    tools = children(probe.pid)
    probe.kill()
    probe.wait()
    eventually(lambda: not any(alive(pid) for pid in tools))


def test_a_dry_run_needs_no_shards(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    modules = f"[probe.processes]\npids = [{os.getpid()}]\ndaemons = false\n[probe.vms]\nenabled = false\n"
    config.write_text(f"[probe]\ninterval_seconds = 0.1\n{modules}")
    done = subprocess.run(
        [*COMMAND, "--config", str(config), "--dry-run", "--ticks", "3"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    readings = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reading["resource_set"] for reading in readings] == ["host", "processes"] * 3
    [process] = readings[-1]["entities"]
    assert process["stable"].endswith(f":{os.getpid()}")
    assert process["metrics"]["memory_resident_bytes"] > 1e6
    assert readings[0]["entities"][0]["invalid"]["cpu_idle_ratio"] == {"value": None, "code": "FIRST"}
    assert readings[-2]["entities"][0]["metrics"]["cpu_idle_ratio"] <= 1
    assert not trouble(done.stderr)


def trouble(said: str) -> list[str]:
    """What a probe says, but for the capabilities that it lacks where the tests run without root."""
    return [line for line in said.splitlines() if "running without CAP_" not in line]


def quick(tmp_path: Path, extra: str = "") -> list[str]:
    config = tmp_path / "quick.toml"
    config.write_text(f"[probe]\ninterval_seconds = 0.1\n{extra}\n[probe.processes]\npids = [{os.getpid()}]\n")
    return [*COMMAND, "--config", str(config)]


@pytest.mark.parametrize("every", [False, True])  # a long line is written in another way
def test_a_reader_that_has_had_enough_ends_a_dry_run_quietly(tmp_path: Path, every: bool) -> None:
    command = quick(tmp_path)
    if every:
        (tmp_path / "quick.toml").write_text("[probe]\ninterval_seconds = 0.1\n")
    with started(
        [*command, "--dry-run", "--seconds", "20"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as probe:
        assert probe.stdout is not None
        assert probe.stderr is not None
        assert probe.stdout.readline()
        probe.stdout.close()
        assert not trouble(probe.stderr.read().decode())
        assert probe.wait(PATIENT) == 0


def test_an_output_that_is_full_is_said(tmp_path: Path) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*quick(tmp_path), "--dry-run", "--ticks", "3"],
            cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "cannot write output: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr


@needs_tools
@pytest.mark.parametrize("debug", [False, True])
def test_a_fault_of_the_agent_is_a_message_and_stops_the_tools(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, debug: bool
) -> None:
    if debug:
        monkeypatch.setenv("SHARDPULSE_DEBUG", "1")
    else:
        monkeypatch.delenv("SHARDPULSE_DEBUG", raising=False)
    script = (
        "import os, sys\nfrom probes.loop import agent\n"
        "def fail(self):\n"
        "    pids = self._probe.modules[0].source.account()['pids']\n"
        "    if pids:\n"
        "        print(pids[0], flush=True)\n"
        "        raise RuntimeError('odd')\n"
        "agent.Agent._handle_reload = fail\n"
        "sys.exit(agent.main(int(sys.argv[1])))\n"
    )
    command = [*quick(tmp_path, '[probe.host]\nsource = "vmstat"\ninterval_seconds = 1.0'), "--dry-run", "--compile"]
    settings = tmp_path / "settings.json"
    settings.write_bytes(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    with settings.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", script, str(file.fileno())],
            cwd=ROOT, pass_fds=[file.fileno()], capture_output=True, text=True, check=False, timeout=PATIENT,
        )  # fmt: skip
    assert done.returncode == EXIT_INTERNAL
    assert "internal error (bug): RuntimeError: odd; set" in done.stderr
    assert ("Traceback" in done.stderr) == debug
    assert not alive(int(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(
    "option",
    ["--ticks=0", "--ticks=-5", "--ticks=1.5", "--seconds=-1", "--seconds=0", "--seconds=nan", "--seconds=inf",
     "--shards=nowhere", "--shards="],
)  # fmt: skip
def test_an_option_that_makes_no_sense_is_refused(tmp_path: Path, option: str) -> None:
    done = subprocess.run(
        [*quick(tmp_path), "--dry-run", option], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == EXIT_USAGE
    assert option.partition("=")[0] in done.stderr
    assert "Traceback" not in done.stderr


def test_shards_on_the_command_line_stay_through_a_reload(tmp_path: Path) -> None:
    options = ["--shards", "127.0.0.1:7001,localhost:7002", "--compile"]
    command = [*quick(tmp_path, '[shards]\naddresses = ["10.0.0.1:1"]\n[probe.vms]\nenabled = false'), *options]
    first = decode(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    assert first.seeds == (("127.0.0.1", 7001), ("localhost", 7002))
    again = decode(subprocess.run(first.compiler, cwd=ROOT, capture_output=True, check=True).stdout)
    assert again.seeds == first.seeds


def test_raw_values_that_json_cannot_say() -> None:
    values = [float("inf"), float("-inf"), float("nan"), 2.0]
    found = row(HOST.metrics[:4], values, bytes([RANGE] * 4))["invalid"]
    assert isinstance(found, dict)
    assert [each["value"] for each in found.values()] == ["Infinity", "-Infinity", None, 2.0]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("[probe]\nintervall = 1\n", EXIT_CONFIG, "intervall"),
        ('[probe.host]\nmetrics = ["cpu_usr"]\n', EXIT_CONFIG, "cpu_usr"),
        ('[probe.processes]\nusers = ["no-such-user"]\n', EXIT_CONFIG, "no-such-user"),
        (
            "[probe.host]\nenabled = false\n[probe.processes]\nenabled = false\n[probe.vms]\nenabled = false\n",
            EXIT_CONFIG,
            "no module",
        ),
        ("", EXIT_NO_INPUT, "empty"),
        ('[shards]\ndirectory = "/nonexistent"\n', EXIT_UNAVAILABLE, "no shards"),
    ],
)
def test_a_bad_configuration_has_a_message_and_its_exit_code(
    tmp_path: Path, text: str, code: int, message: str
) -> None:
    config = tmp_path / "c.toml"
    config.write_text(text)
    command = [*COMMAND, "--config", str(config), "--wait", "0.5"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_settings_survive_their_document(tmp_path: Path) -> None:
    config = tmp_path / "c.toml"
    config.write_text("# defaults\n")
    command = [*COMMAND, "--config", str(config), "--dry-run", "--compile"]
    data = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    assert encode(decode(data)) == data
    assert [module.resource_set for module in decode(data).modules] == ["host", "processes", "vms"]


class Kept:
    """A sink that keeps what it is offered."""

    def __init__(self) -> None:
        self.frames: list[tuple[int, bytes]] = []
        self.tables: list[Table] = []

    def offer(self, samples: Samples) -> int:
        self.frames.append((samples.tick, samples.codes))
        return len(self.frames)

    def offer_table(self, names: Table, tick: int, wall: float, monotonic: float) -> int:
        self.tables.append(names)
        return tick

    def wants_table(self, resource_set: int) -> bool:
        return not self.tables


def test_a_clock_that_steps_back_an_hour_marks_one_reading() -> None:
    sink = Kept()
    wall, monotonic = 1_792_000_000.0, 100.0
    source = HostSource(HOST, HostFacts("h"))
    module = Module(HOST, source, build_pipeline(HOST), Schedule(1.0, 0.5, wall, monotonic), "h", sink)
    for number in range(6):
        monotonic = module.schedule.deadline
        at = wall + monotonic - 100.0 - (3600 if number >= 3 else 0)
        module.run(module.schedule.begin(at, monotonic), at, monotonic)
    ticks = [tick for tick, _ in sink.frames]
    assert ticks[3] == ticks[2] + 1 - 3600
    assert [ORDER in codes for _, codes in sink.frames] == [False, False, False, True, False, False]
    assert module.schedule.missed == 0
    source.close()


def test_delayed_reading_and_its_successor_have_no_values() -> None:
    class HeldUp(HostSource):
        seconds = 0.0

        def sample(self, wall: float, monotonic: float) -> Reading:
            reading = super().sample(wall, monotonic)
            time.sleep(self.seconds)
            return reading

    sink = Kept()
    source = HeldUp(HOST, HostFacts("h"))
    module = Module(HOST, source, build_pipeline(HOST), Schedule(1.0, 0.5, 0.0, 0.0), "h", sink)
    for number in range(5):
        source.seconds = 0.6 if number == 1 else 0.0
        module.run(number, time.time(), time.monotonic())
    assert [set(codes) == {TIMEOUT} for _, codes in sink.frames] == [False, True, True, False, False]
    assert module.timeouts == 2
    source.close()


@pytest.mark.parametrize("step", [3600.0, 86400.0, -86400.0])
def test_clock_step_misses_no_tick_and_only_backwards_marks(step: float) -> None:
    sink = Kept()
    wall, monotonic = 1_792_000_000.0, 100.0
    source = HostSource(HOST, HostFacts("h"))
    module = Module(HOST, source, build_pipeline(HOST), Schedule(1.0, 0.5, wall, monotonic), "h", sink)
    for number in range(5):  # CLOCK_MONOTONIC stands still while a machine sleeps
        monotonic = module.schedule.deadline
        at = wall + monotonic - 100.0 + (step if number >= 3 else 0)
        module.run(module.schedule.begin(at, monotonic), at, monotonic)
    ticks = [tick for tick, _ in sink.frames]
    assert ticks[3] == ticks[2] + 1 + step
    assert ticks[4] == ticks[3] + 1
    assert [ORDER in codes for _, codes in sink.frames] == [False, False, False, step < 0, False]
    assert module.schedule.missed == 0
    source.close()


def test_frozen_probe_resumes_numbering_and_counts_missed(host: Host) -> None:
    probe = host.start()
    eventually(lambda: len(host.frames()) >= 3)
    probe.send_signal(signal.SIGSTOP)
    eventually(lambda: state(probe.pid) == "T")
    before = numbers(host.frames())[-1]
    time.sleep(3.0)  # as long as it is frozen
    probe.send_signal(signal.SIGCONT)
    eventually(lambda: numbers(host.frames())[-1] >= before + 10)
    eventually(lambda: (host.status() or {"probe": {"missed_ticks": 0}})["probe"]["missed_ticks"] >= 10)
    probe.send_signal(signal.SIGTERM)
    assert probe.wait(PATIENT) == 0
    frames = host.frames()
    assert len({each.epoch for each in frames}) == 1
    assert len(numbers(frames)) + len(host.tables()) == numbers(frames)[-1]
    steps = [(b.tick - a.tick, ORDER in b.codes) for a, b in pairwise(frames)]
    assert max(step for step, _ in steps) >= 10
    assert not any(marked for _, marked in steps)


def test_a_source_that_fails_costs_its_own_ticks_only(tmp_path: Path) -> None:
    class Broken(HostSource):
        def sample(self, wall: float, monotonic: float) -> Reading:
            if 2 <= monotonic < 4:
                raise OSError("no more descriptors")
            return super().sample(wall, monotonic)

    sink = Kept()
    source = Broken(HOST, HostFacts("h"))
    module = Module(HOST, source, build_pipeline(HOST), Schedule(1.0, 0.5, 1_792_000_000.0, 0.0), "h", sink)
    for _ in range(5):
        at = module.schedule.deadline
        module.run(module.schedule.begin(1_792_000_000.0 + at, at), 1_792_000_000.0 + at, at)
    assert [set(codes) == {TIMEOUT} for _, codes in sink.frames] == [False, False, True, True, False]
    assert module.timeouts == 2
    source.close()


def test_unavailable_ring_keeps_the_old_configuration(host: Host) -> None:
    probe = host.start()
    eventually(lambda: len(host.frames()) >= 2)
    good = host.config.read_text()
    host.config.write_text(good.replace(str(host.ring), "/nonexistent/ring"))
    probe.send_signal(signal.SIGHUP)
    eventually(lambda: "configuration unchanged" in host.said())
    count = len(host.frames())
    eventually(lambda: len(host.frames()) > count + 2)
    probe.send_signal(signal.SIGTERM)
    assert probe.wait(PATIENT) == 0
    assert len({each.epoch for each in host.frames()}) == 1


def test_a_ring_that_others_squat_leaves_the_host_in_sight(host: Host) -> None:
    host.ring.mkdir()
    probe = host.start()
    eventually(lambda: len(host.frames()) >= 2, says=host.said)
    assert "frames are kept in memory" in host.said()
    probe.send_signal(signal.SIGTERM)
    assert probe.wait(PATIENT) == 0


def test_a_ring_is_removed_by_a_command_but_not_from_under_a_probe(host: Host) -> None:
    command = [sys.executable, "-m", "acquisition", "probe", "--config", str(host.config), "--remove-ring"]
    probe = host.start()
    eventually(lambda: len(host.frames()) >= 1)
    refused = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert refused.returncode == 73
    assert "in use by another probe" in refused.stderr
    assert host.ring.exists()
    probe.terminate()
    assert probe.wait(PATIENT) == 0
    for words in ("removed", "no ring at"):
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
        assert done.stdout.startswith(words)
    assert not host.ring.exists()
