"""A way of VM selection is one file and one registration: wherever users look they find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from acquisition.shards.launch import Shards
from tests.extending.conftest import Toys
from tests.support.other_package import asked, shardpulse
from tests.support.serving import Serving

CONFIGURED = """
[decisions]
selection = "toy"
"""


@pytest.fixture(autouse=True)
def _toy(toys: Toys) -> None:
    toys.add("selection")


def test_configuration_help_and_documentation_name_it() -> None:
    assert '| "toy")' in shardpulse("config").replace("\n#", "")
    assert "most_cpu, toy" in " ".join(shardpulse("query", "moves", "--help").split())
    assert '| `selection = "toy"` | the VM that is last by name | nowhere |' in shardpulse(
        module="filters.decisions.catalogue"
    )


def test_the_command_plans_by_it(hosts: str) -> None:
    found = asked(hosts, "moves", "--selection", "toy")
    assert (found["selection"], [move["vm"]["name"] for move in found["moves"]]) == ("toy", ["tall"])
    other = asked(hosts, "moves", "--selection", "minimum_migration_time")
    assert [move["vm"]["name"] for move in other["moves"]] != ["tall"]


def test_the_service_plans_by_it(hosts: str, shards: Shards, tmp_path: Path) -> None:
    with Serving(tmp_path, shards.addresses, CONFIGURED) as serving:
        found = serving.until("/v1/moves", lambda reply: reply.status == 200 and bool(reply.json["moves"])).json
        assert (found["selection"], [move["vm"]["name"] for move in found["moves"]]) == ("toy", ["tall"])
