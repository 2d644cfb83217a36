"""Commit of the build, for ``shardpulse --version`` and bug reports.

A package holds it: ``deploy/build`` writes ``RECORDED`` into the source that it builds, and ``setup.py`` into what pip
builds from a checkout. A checkout itself asks git when the version is asked for, never at an import.
"""

from __future__ import annotations

from pathlib import Path

RECORDED = ""

DIGITS = 12  #: of a commit that are shown


def commit() -> str:
    """Its first digits, with ``-dirty`` where files differ from it; empty where nothing is known."""
    return RECORDED or of_checkout(Path(__file__).resolve().parents[1])


def of_checkout(root: Path) -> str:
    """Description of the checkout at ``root`` by git; empty without git, and where ``root`` is no checkout."""
    import subprocess

    if not (root / ".git").exists():  # an environment inside somebody else's repository is not of its commit
        return ""
    git = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root)]
    describe = ["describe", "--always", "--dirty", "--exclude=*", f"--abbrev={DIGITS}"]
    try:
        done = subprocess.run([*git, *describe], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def record(root: Path, found: str) -> None:
    """Write ``found`` into this module of the source, or of the build, at ``root``; one without it stays as it is."""
    import re

    module = root / "acquisition" / "commit.py"
    if module.exists():
        module.write_text(re.sub('(?m)^RECORDED = ".*"$', f'RECORDED = "{found}"', module.read_text()))
