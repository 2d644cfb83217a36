"""What users rely on changes only together with its tracked file."""

from __future__ import annotations

import sys

import pytest

from tests.support import golden


@pytest.mark.parametrize("name", golden.SURFACES)
def test_surface_equals_its_tracked_file(name: str) -> None:
    if name == "help.txt" and sys.version_info >= (3, 13):
        pytest.skip("argparse of Python 3.13 prints the same options in another form")
    assert golden.SURFACES[name]() == (golden.DIRECTORY / name).read_text(), (
        "a surface that users rely on has changed: `python -m tests.support.golden` writes it, git shows what is new"
    )
