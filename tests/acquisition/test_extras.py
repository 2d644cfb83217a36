"""Every command has an extra of setup.cfg, and one that lacks it says what to install."""

from __future__ import annotations

import configparser
import subprocess
import sys

import pytest

from acquisition import cli, extras
from tests.support import ROOT

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
    wanted = f"pip install 'shardpulse[{extras.of(command)}]'\n"
    assert (done.returncode, done.stderr.count("\n"), done.stderr.endswith(wanted)) == (69, 1, True), done.stderr


def test_a_module_of_our_own_that_is_missing_is_a_fault() -> None:
    assert extras.missing("probe", ModuleNotFoundError("no", name="probes.nothing")) is None
