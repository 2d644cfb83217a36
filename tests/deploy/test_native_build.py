"""How the steps in C are compiled: without warnings, and not where records would lie in memory the other way round."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

import pytest
from environment import NATIVE  # deploy/environment.py

from tests.support import ROOT
from tests.support.untested import require_native

HEADERS = sysconfig.get_path("include")
require_native(HEADERS if (Path(HEADERS) / "Python.h").exists() else None)


def compiled(step: str, *options: str) -> subprocess.CompletedProcess[str]:
    """What the compiler says of a step; nothing is written."""
    command = ["cc", "-fsyntax-only", "-fopenmp-simd", *options, f"-I{HEADERS}", f"{ROOT / step}.c"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("step", NATIVE)
def test_step_compiles_without_a_warning(step: str) -> None:
    done = compiled(step, "-Wall", "-Wextra", "-Wshadow", "-Werror")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("step", NATIVE)
def test_machine_that_is_not_little_endian_compiles_no_step(step: str) -> None:
    done = compiled(step, "-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__")
    assert done.returncode != 0
    assert "this machine is not little-endian" in done.stderr
