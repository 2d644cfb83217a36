"""Commit of the build, for ``shardpulse --version`` and bug reports.

Packages contain it: ``deploy/build`` writes ``RECORDED`` into the source it builds, and ``setup.py`` into what pip
builds from a checkout. A checkout asks git when the version is requested, never at import.
"""

from __future__ import annotations

from pathlib import Path

RECORDED = ""

DIGITS = 12  #: digits of the commit to show


def commit() -> str:
    """Its first digits, with ``-dirty`` if files differ from it; empty if unknown."""
    return RECORDED or of_checkout(Path(__file__).resolve().parents[1])


def of_checkout(root: Path) -> str:
    """Description by git of the checkout at ``root``; empty without git, and if ``root`` is not a checkout."""
    import subprocess

    if not (root / ".git").exists():  # an environment inside another repository does not belong to its commit
        return ""
    git = ["git", "--no-optional-locks", "-c", "safe.directory=*", "-C", str(root)]
    describe = ["describe", "--always", "--dirty", "--exclude=*", f"--abbrev={DIGITS}"]
    try:
        done = subprocess.run([*git, *describe], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def record(root: Path, found: str) -> None:
    """Write ``found`` into this module of the source or build at ``root``; without this module, nothing is changed."""
    import re

    module = root / "acquisition" / "commit.py"
    if module.exists():
        module.write_text(re.sub('(?m)^RECORDED = ".*"$', f'RECORDED = "{found}"', module.read_text()))
