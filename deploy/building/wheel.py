"""Wheel with the native steps: abi3, for CPython 3.11 on and older systems."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

from environment import NATIVE
from system_packages import fail

from building.source import Source
from building.tools import run

_BACKEND = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def build(source: Source, out: Path) -> Path:
    """Build the wheel in ``out``. Exits with 69 if a step could not be compiled, or the tag would promise too much."""
    raw = source.directory.parent / "raw"
    raw.mkdir(exist_ok=True)
    # pip would build it in an environment with the current newest setuptools
    run([sys.executable, "-c", _BACKEND, raw], "the wheel cannot be built", source.directory, source.epoch)
    (plain,) = raw.glob("*.whl")
    with zipfile.ZipFile(plain) as content:
        missing = [name for name in NATIVE if f"{name}.abi3.so" not in content.namelist()]
    if missing:
        fail(f"not compiled: {', '.join(missing)}: install a C compiler and Python's headers (gcc, python3-dev)")
    out.mkdir(parents=True, exist_ok=True)
    told = run(["auditwheel", "repair", "--plat", _oldest(plain), "--wheel-dir", out, plain],
               "auditwheel could not give the wheel its tag", epoch=source.epoch)  # fmt: skip
    return _named(out, told)


def _oldest(wheel: Path) -> str:
    """Tag of the oldest systems that provide the wheel's symbols."""
    told = " ".join(run(["auditwheel", "show", wheel], "auditwheel cannot read the wheel").split())
    found = re.search(r'consistent with the following platform tag: "([^"]+)"', told)
    if not found or not found[1].startswith("manylinux"):
        fail(f"the wheel runs on this system only: {told}")
    return found[1]


def _named(out: Path, told: str) -> Path:
    wheels = sorted(out.glob("shardpulse-*.whl"), key=lambda path: path.stat().st_mtime_ns)
    if not wheels:
        fail(f"auditwheel wrote no wheel: {told}")
    return wheels[-1]
