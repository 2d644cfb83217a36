"""Entry points are read when the package is installed: with those of another checkout, tests would be of neither."""

from __future__ import annotations

import configparser
from importlib.metadata import entry_points

import pytest

from tests.support import ROOT


def pytest_configure() -> None:
    """End the run at once where setup.cfg declares what is not installed."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / "setup.cfg")
    for group, lines in parser["options.entry_points"].items():
        installed = {(entry.name, entry.value) for entry in entry_points(group=group)}
        for name, _, value in (line.partition("=") for line in lines.split("\n") if line.strip()):
            if (name.strip(), value.strip()) not in installed:
                pytest.exit(
                    f"the entry point {group} {name.strip()} of setup.cfg is not installed: run "
                    "`python -m pip install --no-deps -e .` in this environment, or tests/run",
                    returncode=4,
                )
