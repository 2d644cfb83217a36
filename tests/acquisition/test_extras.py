"""Every command has an extra of setup.cfg, and one that lacks it says what to install."""

from __future__ import annotations

import configparser
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from acquisition import cli, extras
from tests.support import ROOT

_TEXTS = {"", ".cfg", ".html", ".js", ".j2", ".md", ".py", ".sh", ".toml", ".txt", ".yml"}
DECLARED = configparser.ConfigParser()
DECLARED.read(ROOT / "setup.cfg")


@pytest.mark.parametrize("command", cli.SUMMARIES)
def test_every_command_has_an_extra(command: str) -> None:
    assert extras.of(command) in DECLARED["options.extras_require"]


@pytest.mark.parametrize("command", ["probe", "filter", "query", "status", "serve", "archive", "shards"])
def test_a_command_that_lacks_its_packages_says_what_to_install(command: str) -> None:
    # -S: this project's own packages and nothing that was installed; the entry points are told by their metadata
    code = (
        f"import sys; sys.path[:0] = [{str(ROOT)!r}]; from acquisition.cli import main; sys.exit(main([{command!r}]))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, cwd=ROOT)
    wanted = f"pip install '{ROOT}[{extras.of(command)}]'\n"
    assert (done.returncode, done.stderr.count("\n"), done.stderr.endswith(wanted)) == (69, 1, True), done.stderr


def test_a_module_of_our_own_that_is_missing_is_a_fault() -> None:
    assert extras.missing("probe", ModuleNotFoundError("no", name="probes.nothing")) is None


def hint_of(place: Path, prefix: Path = Path("/usr")) -> str:
    """What an installation in a directory says of the extra ``query``."""
    code = (
        f"import sys; sys.path[:0] = [{str(place)!r}]; sys.prefix = {str(prefix)!r}; from acquisition import extras; "
        "print(extras.how_to_install('query'))"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_an_installation_names_the_wheel_it_came_from(tmp_path: Path) -> None:
    wheel, about = tmp_path / "of us" / "shardpulse-1.0-cp311-abi3-linux.whl", tmp_path / "shardpulse-1.0.dist-info"
    shutil.copytree(ROOT / "acquisition", tmp_path / "acquisition", ignore=shutil.ignore_patterns("__pycache__"))
    about.mkdir()
    (about / "METADATA").write_text("Name: shardpulse\nVersion: 1.0\n")
    (about / "direct_url.json").write_text(json.dumps({"url": wheel.as_uri(), "archive_info": {}}))
    assert hint_of(tmp_path).startswith("pip install --no-index --find-links WHEELS 'shardpulse[query]', with ")
    wheel.parent.mkdir()
    wheel.touch()
    assert hint_of(tmp_path) == f"pip install '{wheel}[query]'"
    (about / "direct_url.json").unlink()
    (tmp_path / extras.DEPLOYED).touch()
    assert hint_of(tmp_path, tmp_path).startswith("deploy/site.yml installs it on hosts ")
    assert f'_DONE = "{extras.DEPLOYED}"' in (ROOT / "deploy/library/python_environment.py").read_text()


def test_nothing_is_installed_by_a_name_that_is_not_ours() -> None:
    by_name = re.compile(r"pip\S* install(?![^\n]*--no-index)[^\n`]*[ '\"]shardpulse([\[='\"`]|\s|$)")
    rooms = ("acquisition", "deploy", "docs", "experiments", "filters", "probes", "tests")
    paths = [*ROOT.glob("*"), *(path for room in rooms for path in (ROOT / room).rglob("*"))]
    files = [path for path in paths if path.suffix in _TEXTS and path.is_file() and path.name != "CHANGELOG.md"]
    assert len(files) > 500
    assert {str(path.relative_to(ROOT)) for path in files if by_name.search(path.read_text(errors="replace"))} == set()
