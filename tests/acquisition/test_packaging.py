"""What is installed: every package, every entry point, every pinned version."""

from __future__ import annotations

import configparser
import hashlib
import re
from importlib.metadata import entry_points, metadata, version

import pytest
import yaml

import acquisition
from tests.support import ROOT

#: Of the text that apache.org publishes, as Debian installs it.
APACHE_2 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


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
    assert version("shardpulse") == acquisition.__version__


def test_metadata_names_authors_and_licence_and_no_address():
    told = metadata("shardpulse")
    assert (told["Author"], told["License"]) == ("the shardpulse authors", "Apache-2.0")
    assert {"Author-email", "Maintainer-email", "Home-page", "Project-URL"}.isdisjoint(told)


def test_licence_files_are_complete():
    licence = (ROOT / "LICENSE").read_text()
    assert hashlib.sha256(licence.encode()).hexdigest() == APACHE_2
    plots = ROOT / "filters/page/vendor/uPlot.LICENSE"
    assert "MIT" in plots.read_text()
    listed = setup()["metadata"]["license_files"].split()
    assert listed == ["LICENSE", "NOTICE", str(plots.relative_to(ROOT))]


def test_citation_is_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (cited["cff-version"], cited["title"], cited["license"]) == ("1.2.0", "shardpulse", "Apache-2.0")
    assert cited["version"] == acquisition.__version__
    (paper,) = cited["references"]
    assert paper["doi"] == "10.1145/1967422.1967425"
    assert [author["family-names"] for author in paper["authors"]] == ["Andreolini", "Colajanni", "Lancellotti"]
