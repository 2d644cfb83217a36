"""A check of samples: one file, one word in _NAMES, one fixture, which is its test; found wherever users look."""

from __future__ import annotations

import json

import pytest

from acquisition.errors import EXIT_CONFIG
from tests.extending.toys import toy_check
from tests.support import FIXTURES as CAPTURES
from tests.support.check_cases import run_fixture
from tests.support.extended_tree import FIXTURES, ExtendedPipeline, ExtendedTree
from tests.support.waiting import eventually

CAPTURE = CAPTURES / "vmstat" / "procps-4.0.2.txt"


def test_fixture() -> None:
    assert run_fixture(toy_check.CHECK, FIXTURES / "toy_check.json") == 1


def test_the_configuration_has_its_table(tree: ExtendedTree) -> None:
    printed = tree.printed("config")
    assert "# Free memory that is less than can be: INCONSISTENT.\n[checks.toy_check]\n" in printed
    assert "# free memory below this is not believed (>= 0, <= 1099511627776)\nfewest_bytes = 1\n" in printed
    assert printed.index("[checks.first]") < printed.index("[checks.toy_check]")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fewest_bytes = -1", "line 2: key checks.toy_check.fewest_bytes: expected `int` >= 0"),
        ("fewest = 1", "line 2: key checks.toy_check.fewest: unknown key; did you mean fewest_bytes?"),
    ],
)
def test_a_wrong_parameter_is_refused(tree: ExtendedTree, text: str, message: str) -> None:
    config = tree.directory / "wrong.toml"
    config.write_text(f"[checks.toy_check]\n{text}\n")
    done = tree.run("config", "--file", config)
    assert done.returncode == EXIT_CONFIG
    assert message in done.stderr


def test_replay_and_dry_run_use_it(tree: ExtendedTree) -> None:
    config = tree.directory / "check.toml"
    for limit, code in ((1 << 40, "INCONSISTENT"), (0, None)):
        config.write_text(f"[checks.toy_check]\nfewest_bytes = {limit}\n[probe.processes]\nenabled = false\n")
        replayed = json.loads(tree.printed("replay", "vmstat", CAPTURE, "--config", config).splitlines()[0])
        assert replayed["invalid"].get("memory_free_bytes", {}).get("code") == code
        dry = json.loads(tree.printed("probe", "--dry-run", "--ticks", 1, "--config", config).splitlines()[0])
        assert dry["entities"][0]["invalid"].get("memory_free_bytes", {}).get("code") == code


def test_readers_see_its_verdict(pipeline: ExtendedPipeline) -> None:
    metric = "memory_free_bytes"
    rows = eventually(lambda: pipeline.query("--host", "extended", "--set", "host", "--metric", metric))
    assert [(row["validity"], row["mean"], row["last"] > 0) for row in rows] == [("INCONSISTENT", None, True)]
    path = f"/v1/hosts?reading=latest&host=extended&metric={metric}"
    hosts = eventually(lambda: json.loads(pipeline.get(path))["hosts"])
    assert hosts[0]["readings"][metric]["validity"] == "INCONSISTENT"
    told = f'metric="{metric}",validity="INCONSISTENT"'
    lines = eventually(lambda: [line for line in pipeline.get("/metrics").splitlines() if told in line])
    assert any('host="extended"' in line for line in lines)
