"""docs/http.md shows an answer of each resource, with the members that it has."""

from __future__ import annotations

from pathlib import Path

from acquisition.config.settings import Settings
from acquisition.link.cluster import Cluster
from acquisition.shards.servers.launch import Shards
from filters.service.http.access import access
from filters.service.service import Service
from tests.support import http_examples

HINT = "`python -m tests.support.http_examples --write` writes docs/http.md again"


def test_each_resource_has_an_example() -> None:
    resources = Service(Settings(), access(Settings().serve)).resources
    assert {resource.name for resource in resources} == set(http_examples.REQUESTS)
    assert list(http_examples.documented()) == [*http_examples.REQUESTS, "problem"]


def test_examples_have_the_members_of_what_is_answered(cluster: Cluster, shards: Shards, tmp_path: Path) -> None:
    with http_examples.scene(cluster, shards, tmp_path) as service:
        found = http_examples.answers(service)
    for name, shown in http_examples.documented().items():
        assert not http_examples.difference(shown, http_examples.parsed(found[name])), f"{name}: {HINT}"
    assert http_examples.difference({"a": [{"b": 1}]}, {"a": [{"c": 1}]}) == ".a[]: ['b', 'c']"
