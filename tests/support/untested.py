"""Untested parts of a run, and how to test them: a pytest plugin.

A test says which programs it needs: ``@pytest.mark.needs("vmstat", "pidstat")``; a fixture calls ``require``.
Without them it is skipped with the reason, and the run ends with a list of all such reasons. Where apt may
install, nothing is skipped for want of a program: the test fails instead.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from typing import NoReturn

import pytest
from system_packages import SYSTEM_TOOLS, find_tool  # deploy/system_packages.py, which installs them


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture of the test is made."""
    require(*(tool for mark in item.iter_markers("needs") for tool in mark.args))


def require(*tools: str) -> None:
    """For fixtures: go on where these programs are, else skip or fail the test with the remedy."""
    missing = {tool: SYSTEM_TOOLS[tool] for tool in tools if find_tool(tool) is None}
    if missing:
        said = f"{', '.join(missing)} not found: apt install {' '.join(dict.fromkeys(missing.values()))}"
        _give_up(f"{said} (tests/run does that)" if _may_install() else said)


def require_native(step: object) -> None:
    """For a module or a fixture that needs a step in C, which is None where it was not compiled."""
    if step is None:
        _give_up("not compiled: apt install gcc python3-dev, and start again")


def _may_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _give_up(said: str) -> NoReturn:
    if _may_install():
        pytest.fail(said, pytrace=False)
    pytest.skip(said, allow_module_level=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The list at the end."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(_reason(report) for report in reports)
    if reasons:
        terminalreporter.section("not tested here")
        for reason, count in sorted(reasons.items()):
            terminalreporter.line(f"{count} test{'s' if count > 1 else ''}: {reason}")


def _reason(report: pytest.TestReport) -> str:
    text = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return str(text).removeprefix("Skipped: ")
