"""Every resource is declared in one way; routes, description, stream and documentation follow from that."""

from __future__ import annotations

from acquisition.config.settings import Settings
from filters.service import resources
from filters.service.http.access import access
from filters.service.interface.openapi import document, table
from filters.service.service import Service
from tests.support import ROOT

DECLARED = Service(Settings(), access(Settings().serve)).resources


def test_the_page_of_the_documentation_lists_all_of_them() -> None:
    assert table(DECLARED) in (ROOT / "docs/http.md").read_text(), table(DECLARED)


def test_the_description_has_an_operation_for_each() -> None:
    found = document(DECLARED, token=False)["paths"]
    assert {(path, method) for path, operations in found.items() for method in operations} == {
        (resource.path, resource.method.lower()) for resource in DECLARED
    }


def test_each_is_answered_in_one_way_and_has_a_name_of_its_own() -> None:
    assert len({resource.name for resource in DECLARED}) == len(DECLARED)
    for resource in DECLARED:
        assert (resource.build is None) != (resource.handle is None), resource.name
        assert resource.build is not None or not (resource.prepared or resource.topic), resource.name


def test_each_file_is_registered() -> None:
    directory = ROOT / "filters/service/resources"
    files = {path.stem for path in directory.glob("*.py")} - {"__init__", "__main__"}
    assert files == {*resources.REGISTRY, "stream"}
