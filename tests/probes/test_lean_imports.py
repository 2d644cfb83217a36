"""The probe's import closure stays lean: each of these modules would cost every probe about a megabyte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from probes.probe_command import import_path
from tests.support import ROOT

PATIENT = 120.0
HEAVY = (
    "argparse",
    "dataclasses",
    "hashlib",
    "importlib.metadata",
    "inspect",
    "logging",
    "msgspec",
    "numpy",
    "pathlib",
    "redis",
    "selectors",
    "socket",
    "ssl",
    "subprocess",
    "tomllib",
)
EVERYTHING = (
    "probes.loop.agent",
    *(f"probes.sources.{name}" for name in ("procfs_host", "procfs_processes", "procfs_vms")),
)
#: A probe that starts, up to the moment when the agent takes its process over.
BECOMING = """
import os, sys
from probes import probe_command
os.execv = lambda *arguments: None
probe_command.main(["--dry-run"])
"""
TOOLS = ("probes.sources.vmstat_child", "probes.sources.pidstat_child")


def imported(*names: str) -> set[str]:
    """What a bare interpreter, started like the agent's, has loaded after importing ``names``."""
    code = f"import sys; sys.path[:0] = sys.argv[1:]\nimport {', '.join(names)}\nprint(*sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code, *import_path()]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


@pytest.mark.parametrize("names", [EVERYTHING, (*EVERYTHING, *TOOLS)], ids=["procfs", "tools"])
def test_nothing_heavy_is_imported(names: tuple[str, ...]) -> None:
    loaded = imported(*names)
    assert "hiredis" in loaded
    assert not loaded.intersection(HEAVY)
    assert not {
        name for name in loaded if name.startswith(("filters", "experiments", "deploy", "probes.captures.replay"))
    }


def test_a_probe_that_reads_proc_does_not_load_the_tool_parsers() -> None:
    assert not {"probes.tools.vmstat", "probes.tools.pidstat", "probes.loop.dry_run"}.intersection(
        imported(*EVERYTHING)
    )


@pytest.mark.parametrize("switch", [{}, {"PYTHONDONTWRITEBYTECODE": "1"}], ids=["plain", "not written"])
def test_command_compiles_agent_imports_before_exec(tmp_path: Path, switch: dict[str, str]) -> None:
    """Compiling takes more than a megabyte, which would stay with an agent that is the first to import something."""
    for name in ("acquisition", "probes"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    other = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONPYCACHEPREFIX")
    plain = {key: value for key, value in os.environ.items() if key not in other}
    subprocess.run([sys.executable, "-c", BECOMING], check=True, cwd=tmp_path, env=plain | switch, timeout=PATIENT)
    ours = {name.rpartition(".")[2] for name in imported(*EVERYTHING) if name.startswith(("acquisition.", "probes."))}
    compiled = {path.name.partition(".")[0] for path in [*tmp_path.rglob("*.pyc"), *tmp_path.rglob("*.so")]}
    assert ours - {path.name for path in tmp_path.rglob("*") if path.is_dir()} <= compiled
