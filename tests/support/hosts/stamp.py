"""Stamp of the last passing host tests and what they tested: pytest plugin.

A whole run leaves those tests to ``tests/run --hosts``, except for the scenario (marked ``always``). A passing
``--hosts`` writes ``tests/deploy/hosts.stamp``, a tracked file: the hash of ``deploy``, units included, and of
``acquisition/shards``. A whole run says in its last lines whether it still holds.
"""

from __future__ import annotations

import hashlib
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.repeated import is_whole_run

TESTED = ("deploy", "acquisition/shards")
STAMP = ROOT / "tests" / "deploy" / "hosts.stamp"
NOT_TESTED = "HOSTS WITH SYSTEMD ARE NOT TESTED HERE"


def hash_of(root: Path) -> str | None:
    """Hash of the tested files as they lie: their names, modes and contents; None outside a git checkout."""
    git = ["git", "-c", "safe.directory=*", "-C", str(root), "ls-files", "-z", "--cached", "--others"]
    listed = subprocess.run([*git, "--exclude-standard", "--", *TESTED], capture_output=True, text=True)
    if listed.returncode:
        return None
    digest = hashlib.sha256()
    for name in sorted(set(filter(None, listed.stdout.split("\0")))):
        path = root / name
        if path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            digest.update(f"{name}\0{bool(path.stat().st_mode & 0o100)}\0{content}\n".encode())
    return digest.hexdigest()


def stale(root: Path, stamp: Path) -> str:
    """Why the tests on hosts should run again, "" while the stamp holds."""
    wanted = hash_of(root)
    if wanted is None:
        return ""
    if not stamp.exists():
        return f"they have never passed ({stamp.name} is missing)"
    date, _, known = stamp.read_text().strip().partition(" ")
    return "" if known == wanted else f"{' or '.join(TESTED)} changed since they last passed ({date})"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave tests on hosts out of a whole run that does not ask for them."""
    if is_whole_run(config) and not config.getoption("markexpr"):
        out = [item for item in items if _is_on_hosts(item) and item.get_closest_marker("always") is None]
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in set(out)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """Write the stamp, or say that it is stale."""
    if not is_whole_run(config):
        return
    asked = config.getoption("markexpr")
    if asked == "hosts":
        stats = terminalreporter.stats
        skipped = any(NOT_TESTED in str(report.longrepr) for report in stats.get("skipped", ()))
        if exitstatus == 0 and stats.get("passed") and not skipped:
            STAMP.write_text(f"{datetime.now(UTC):%Y-%m-%d} {hash_of(ROOT)}\n")
            terminalreporter.line(f"tests on hosts: passed, commit {STAMP.relative_to(ROOT)}")
    elif not asked:
        reason = stale(ROOT, STAMP)
        if reason:
            terminalreporter.line(f"tests on hosts: {reason}: run tests/run --hosts before a release")


def _is_on_hosts(item: pytest.Item) -> bool:
    return item.get_closest_marker("hosts") is not None
