"""A way of VM placement is one file and one registration: wherever users look they find it."""

from __future__ import annotations

from pathlib import Path

import pytest

from acquisition.shards.launch import Shards
from tests.extending.conftest import Toys
from tests.support.other_package import asked, shardpulse
from tests.support.serving import Serving

CONFIGURED = """
[decisions]
placement = "toy"
"""


@pytest.fixture(autouse=True)
def _toy(toys: Toys) -> None:
    toys.add("placement")


def test_configuration_help_and_documentation_name_it() -> None:
    assert '| "toy")' in shardpulse("config").replace("\n#", "")
    assert "least_loaded, toy" in " ".join(shardpulse("query", "moves", "--help").split())
    assert '| `placement = "toy"` | the host that is first by name | nowhere |' in shardpulse(
        module="filters.decisions.catalogue"
    )


def test_the_command_plans_by_it(hosts: str) -> None:
    found = asked(hosts, "moves", "--placement", "toy")
    assert (found["placement"], [move["destination"]["host"] for move in found["moves"]]) == ("toy", ["calm"])
    other = asked(hosts, "moves", "--placement", "best_fit_decreasing", "--selection", "minimum_migration_time")
    assert [move["destination"]["host"] for move in other["moves"]] != ["calm"]


def test_the_service_plans_by_it(hosts: str, shards: Shards, tmp_path: Path) -> None:
    with Serving(tmp_path, shards.addresses, CONFIGURED) as serving:
        found = serving.until("/v1/moves", lambda reply: reply.status == 200 and bool(reply.json["moves"])).json
        assert (found["placement"], [move["destination"]["host"] for move in found["moves"]]) == ("toy", ["calm"])
