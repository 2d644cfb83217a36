"""A source whose library blocks: the same as any other, and ``blocks=True`` where it is registered."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.extending.additions import BLOCKING
from tests.support import ROOT
from tests.support.extended_tree import FIXTURES, ExtendedPipeline, ExtendedTree
from tests.support.waiting import eventually

#: Seconds: on a busy machine a child may be taken for hung by three ticks, begin again while its library hangs, and
#: have ten seconds for its first answer; pauses double meanwhile.
_AGAIN = 90.0
GOOD = (FIXTURES / "toy_blocking.txt").read_text()
UUID, CORES = "22222222-0000-0000-0000-000000000002", 1.25
CONFIG = """
[probe]
interval_seconds = 0.25
[probe.processes]
enabled = false
[probe.vms]
source = "blocking"
metrics = ["cpu_ratio"]
"""


class DryRun:
    """A probe without shards; ``vms`` and ``host`` are what it printed, ``answer`` is what the library says."""

    def __init__(self, directory: Path) -> None:
        self.answer = directory / "answer.txt"
        self.answer.write_text(GOOD)
        self.vms: list[dict[str, Any]] = []
        self.hosts = 0
        tree = ExtendedTree(directory, [BLOCKING], {"TOY_BLOCKING": str(self.answer)})
        config = directory / "probe.toml"
        config.write_text(CONFIG)
        self.said = directory / "said"
        with open(self.said, "wb") as said:
            self.process = tree.start("probe", "--dry-run", "--config", config, said=said)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            document = json.loads(line)
            if document["resource_set"] == "vms":
                self.vms.append(document["entities"][0])
            else:
                self.hosts += 1

    def newest_code(self) -> str:
        """The validity of the newest sample; "" before the first one."""
        if not self.vms:
            return ""
        invalid = self.vms[-1]["invalid"]
        return str(invalid["cpu_ratio"]["code"]) if invalid else "VALID"

    def children(self) -> list[int]:
        """The pids of its children."""
        task = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return [int(pid) for pid in task.read_text().split()]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join(5)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[DryRun]:
    running = DryRun(tmp_path)
    yield running
    running.close()


def test_a_call_that_hangs_becomes_timeout_and_nothing_else_waits(probe: DryRun) -> None:
    eventually(lambda: probe.newest_code() == "VALID", says=probe.said.read_text)
    assert probe.vms[-1]["metrics"] == {"cpu_ratio": CORES}
    probe.answer.write_text("block")
    eventually(lambda: probe.newest_code() == "TIMEOUT")
    before, hosts = len(probe.vms), probe.hosts
    # every tick is answered for; on a busy machine what was printed of the VMs may be read after that of the host
    eventually(lambda: probe.hosts >= hosts + 8 and len(probe.vms) >= before + 4, says=probe.said.read_text)
    assert {vm["stable"] for vm in probe.vms} == {UUID}, "it is known whose samples are missing"
    eventually(lambda: "source blocking does not answer; restarting" in probe.said.read_text())
    probe.answer.write_text(GOOD)
    eventually(lambda: probe.newest_code() == "VALID", _AGAIN, says=probe.said.read_text)


def test_a_call_that_fails_is_a_tick_without_an_answer(probe: DryRun) -> None:
    eventually(lambda: probe.newest_code() == "VALID", says=probe.said.read_text)
    probe.answer.write_text("fail")
    eventually(lambda: probe.newest_code() == "TIMEOUT")
    probe.answer.write_text(GOOD)
    eventually(lambda: probe.newest_code() == "VALID", _AGAIN, says=probe.said.read_text)
    assert "exited with" not in probe.said.read_text(), (
        "the child goes on, unless it is so slow that it is started again"
    )


def test_the_child_dies_with_the_probe_also_while_its_library_hangs(probe: DryRun) -> None:
    eventually(lambda: probe.newest_code() == "VALID", says=probe.said.read_text)
    probe.answer.write_text("block")
    eventually(lambda: probe.newest_code() == "TIMEOUT")
    (child,) = eventually(probe.children)
    probe.process.kill()
    eventually(lambda: not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split()[2])


def test_a_library_that_is_not_installed_says_so() -> None:
    task = {
        "module": "probes.sources.of_nothing", "resource_set": "vms", "metrics": ["cpu_ratio"], "interval": 1.0,
        "names": [], "host": "h", "scope": "", "discovery_interval": 5.0,
        "selection": {"every": True, "commands": [], "uids": [], "cgroups": [], "pids": [], "limit": 10,
                      "daemons": False},
    }  # fmt: skip
    code = f"from probes.sources.in_child import main; main({json.dumps(json.dumps(task))})"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "probes.sources.of_nothing cannot be imported" in done.stderr
    assert "Traceback" not in done.stderr


def test_readers_see_its_machines(pipeline: ExtendedPipeline) -> None:
    rows = eventually(lambda: pipeline.query("--entity", UUID, "--metric", "cpu_ratio"))
    assert [(row["host"], row["last"], row["validity"]) for row in rows] == [("blocked", CORES, "VALID")]
    hosts = json.loads(pipeline.get("/v1/hosts?reading=latest&host=blocked"))["hosts"]
    assert [each["source"] for each in hosts[0]["sets"]] == ["procfs", "blocking"]
    eventually(lambda: 'entity="dadaist"' in pipeline.get("/metrics"))
