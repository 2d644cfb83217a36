"""A rule, a VM selection and a VM placement are one file and one registration each, found wherever users look."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest

from acquisition.shards.servers.launch import Shards
from tests.extending.conftest import Toys
from tests.support.other_package import asked, shardpulse
from tests.support.serving import Serving


class Kind(NamedTuple):
    """A kind of toy: what to configure, what the help and the catalogue say, and what the toy answers."""

    configured: str
    helped: tuple[str, str]  #: a question of ``query``, and what its help says
    catalogued: str
    asked: tuple[str, ...]
    answers: list[str]


KINDS = {
    "rule": Kind(
        'rule = "toy"\n[decisions.parameters.toy]\nlimit = 0.01\n',
        ("hot", "toy: a toy threshold metric=cpu_busy_ratio, limit=0.5, "),
        "| `toy` | u > `limit` | nowhere |",
        ("hot", "--rule", "toy", "--parameter", "limit=0.01", "--all"),
        ["hot", "warm"],
    ),
    "selection": Kind(
        'selection = "toy"\n',
        ("moves", "most_cpu, toy"),
        '| `selection = "toy"` | the VM that is last by name | nowhere |',
        ("moves", "--selection", "toy"),
        ["tall"],
    ),
    "placement": Kind(
        'placement = "toy"\n',
        ("moves", "least_loaded, toy"),
        '| `placement = "toy"` | the host that is first by name | nowhere |',
        ("moves", "--placement", "toy"),
        ["calm"],
    ),
}


def answers(kind: str, document: dict[str, Any]) -> list[str]:
    """What the toy decides: hot hosts, VMs to move, or destinations."""
    if kind == "rule":
        return [row["host"] for row in document["hot"]]
    return [move["vm"]["name"] if kind == "selection" else move["destination"]["host"] for move in document["moves"]]


@pytest.mark.parametrize("kind", KINDS)
def test_registered_toy_is_found_wherever_users_look(
    kind: str, toys: Toys, hosts: str, shards: Shards, tmp_path: Path
) -> None:
    toys.add(kind)
    toy = KINDS[kind]
    question, text = toy.helped
    file = tmp_path / "shardpulse.toml"
    file.write_text(f"[decisions]\n{toy.configured}")
    assert '| "toy")' in shardpulse("config").replace("\n#", "")
    assert toy.configured.splitlines()[0] in shardpulse("config", "--file", str(file))
    assert text in " ".join(shardpulse("query", question, "--help").split()) + " "
    assert toy.catalogued in shardpulse(module="filters.decisions.catalogue")
    assert answers(kind, asked(hosts, *toy.asked)) == toy.answers
    with Serving(tmp_path, shards.addresses, f"[decisions]\n{toy.configured}") as serving:
        path = "/v1/hot" if kind == "rule" else "/v1/moves"
        found = serving.until(path, lambda reply: reply.status == 200 and answers(kind, reply.json) == toy.answers).json
        named = found[kind]["name"] if kind == "rule" else found[kind]
        assert named == "toy"


def test_moves_are_planned_by_a_registered_rule(toys: Toys, hosts: str, shards: Shards, tmp_path: Path) -> None:
    toys.add("rule")
    moves = asked(hosts, "moves", "--rule", "toy")
    assert (moves["rule"]["name"], moves["hot"]) == ("toy", ["hot"])
    with Serving(tmp_path, shards.addresses) as serving:
        parameters = serving.ready().ask("/openapi.json").json["paths"]["/v1/hot"]["get"]["parameters"]
    (rule,) = (each for each in parameters if each["name"] == "rule")
    assert rule["schema"]["enum"][-1] == "toy"
