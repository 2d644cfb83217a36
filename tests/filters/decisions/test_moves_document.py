"""What docs/moves.md says works as it stands there."""

from __future__ import annotations

import re

import pytest

from acquisition.config import loader
from acquisition.config.settings import Settings, Shards
from acquisition.link.cluster import Cluster
from acquisition.shards.servers import launch
from filters.decisions import catalogue
from filters.decisions.constraints import labels
from filters.decisions.method import method_of
from tests.support import ROOT
from tests.support.data_center import Guest, Machine, flowing
from tests.support.waiting import eventually

DOCUMENT = (ROOT / "docs/moves.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found is not None
    return found[1]


def test_every_rule_selection_placement_and_label_is_named() -> None:
    known = (labels.CORDONED, labels.MAINTENANCE, labels.PINNED, labels.GROUP, labels.GROUPS, labels.NOT_GROUP,
             labels.AFFINITY, labels.ANTI_AFFINITY)  # fmt: skip
    for table in (catalogue.rules_table(), catalogue.ways_table()):
        assert table in DOCUMENT, table
    for name in known:
        assert re.search(rf"\b{name} = ", block("toml"))


def test_the_configuration_reads() -> None:
    settings = loader.parse(block("toml")).decisions
    assert method_of(settings).parameters.waiting == 0.05  # type: ignore[attr-defined]


def test_the_example_runs(
    shards: launch.Shards, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guests = [Guest("small", 2.4, 2), Guest("large", 5.2, 16)]
    configured = Settings(shards=Shards(addresses=[str(address) for address in shards.addresses]))
    monkeypatch.setattr(loader, "load", lambda: configured)
    example = compile(block("python"), "docs/moves.md", "exec")

    def printed() -> str:
        exec(example, {})
        return capsys.readouterr().out

    with flowing(cluster, [Machine(cluster, "hot", guests), Machine(cluster, "calm")]):
        out = eventually(printed)  # nothing is to be moved while a host is late
    assert out.startswith("large hot calm CPU 95% of 8 cores, above 90% for")
