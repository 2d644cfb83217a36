"""What is installed: every package, every entry point, every pinned version."""

from __future__ import annotations

import configparser
import re
from importlib.metadata import entry_points, version

import pytest

from tests.support import ROOT


def setup() -> configparser.ConfigParser:
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    return parser


def declared() -> list[tuple[str, str]]:
    return [
        (group, line.partition("=")[0].strip())
        for group, lines in setup()["options.entry_points"].items()
        for line in lines.split("\n")
        if line.strip()
    ]


@pytest.mark.parametrize(("group", "name"), declared())
def test_every_entry_point_resolves(group, name):
    (found,) = entry_points(group=group, name=name)
    assert found.load() is not None


def test_every_room_is_a_package_that_setuptools_finds():
    for top in ("acquisition", "probes", "filters"):
        for room in {path.parent for path in (ROOT / top).rglob("*.py")}:
            assert (room / "__init__.py").exists(), room


def test_every_requirement_is_pinned():
    pinned = {line.split("==")[0].lower() for line in (ROOT / "deploy/constraints.txt").read_text().splitlines()}
    for line in "\n".join(setup()["options.extras_require"].values()).split("\n"):
        name = re.match(r"[A-Za-z0-9._-]*", line.strip())
        assert name is not None
        assert name[0].lower() in {"", "shardpulse", *pinned}, f"{name[0]} is not in deploy/constraints.txt"


def test_one_version_everywhere():
    import acquisition

    assert version("shardpulse") == acquisition.__version__
