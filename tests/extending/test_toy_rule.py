"""A decision rule is one file and one registration: wherever users look they find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from acquisition.shards.launch import Shards
from tests.extending.conftest import Toys
from tests.support.other_package import asked, shardpulse
from tests.support.serving import Serving

CONFIGURED = """
[decisions]
rule = "toy"
[decisions.parameters.toy]
limit = 0.01
"""


@pytest.fixture(autouse=True)
def _toy(toys: Toys) -> None:
    toys.add("rule")


def test_configuration_help_and_documentation_name_it(tmp_path: Path) -> None:
    assert '| "toy")' in shardpulse("config").replace("\n#", "")
    assert "  toy: a toy threshold\n      metric=cpu_busy_ratio, limit=0.5, " in shardpulse("query", "hot", "--help")
    assert "| `toy` | u > `limit` | nowhere |" in shardpulse(module="filters.decisions.catalogue")
    file = tmp_path / "shardpulse.toml"
    file.write_text(CONFIGURED)
    assert "toy = { limit = 0.01 }" in shardpulse("config", "--file", str(file))


def test_the_command_judges_by_it(hosts: str) -> None:
    found = asked(hosts, "hot", "--rule", "toy", "--parameter", "limit=0.01", "--all")
    assert found["rule"] == {
        "name": "toy", "title": "a toy threshold", "source": "nowhere",
        "parameters": {"smoothed": True, "stale_seconds": 3.0, "metric": "cpu_busy_ratio", "limit": 0.01},
    }  # fmt: skip
    assert [row["host"] for row in found["hot"]] == ["hot", "warm"]
    assert [row["host"] for row in found["not_hot"]] == ["calm"]


def test_moves_are_planned_by_it(hosts: str) -> None:
    moves = asked(hosts, "moves", "--rule", "toy")
    assert (moves["rule"]["name"], moves["hot"]) == ("toy", ["hot"])


def test_the_service_judges_by_it_and_says_so(hosts: str, shards: Shards, tmp_path: Path) -> None:
    with Serving(tmp_path, shards.addresses) as serving:
        serving.until("/v1/hot?rule=toy", lambda reply: reply.status == 200 and bool(reply.json["hot"]))
        parameters = serving.ask("/openapi.json").json["paths"]["/v1/hot"]["get"]["parameters"]
        (rule,) = (each for each in parameters if each["name"] == "rule")
        assert rule["schema"]["enum"][-1] == "toy"
    with Serving(tmp_path, shards.addresses, CONFIGURED) as serving:  # what the page shows is this document's title
        found = serving.until("/v1/hot", lambda reply: reply.status == 200).json
        assert found["rule"]["title"] == "a toy threshold"
