"""Foreign package: one module of ``tests/fixtures`` with its entry point.

Its files lie as pip installs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support import ROOT

_TOYS = ROOT / "tests" / "extending" / "toys"


def install(directory: Path, module: str, group: str, mapping: str) -> None:
    """Put a module of ``tests/extending/toys`` into ``directory``, registered in an entry point group."""
    about = directory / f"{module}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{module} = {module}:{mapping}\n")
    (directory / f"{module}.py").write_bytes((_TOYS / f"{module}.py").read_bytes())


def shardpulse(*arguments: str, module: str = "acquisition") -> str:
    """What a command prints, in a process of its own, which looks for packages anew."""
    done = subprocess.run([sys.executable, "-m", module, *arguments], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def asked(addresses: object, *arguments: str) -> Any:
    """The document of ``shardpulse query`` with ``--json``."""
    return json.loads(shardpulse("query", *arguments, "--json", "--grace", "0", "--shards", str(addresses)))


def on_path(directory: Path) -> str:
    """PYTHONPATH with ``directory`` before what it was."""
    before = os.environ.get("PYTHONPATH", "")
    return f"{directory}{os.pathsep}{before}" if before else str(directory)
