"""The probe's import closure stays lean: each of these modules would cost every probe about a megabyte."""

from __future__ import annotations

import subprocess
import sys

import pytest

from probes.probe_command import import_path
from tests.support import ROOT

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
EVERYTHING = ("probes.agent", *(f"probes.sources.{name}" for name in ("procfs_host", "procfs_processes", "procfs_vms")))
#: Prints what a starting probe has loaded when the agent takes its process over.
BECOMING = """
import os, sys
from probes import probe_command
os.execv = lambda *arguments: print(*sys.modules)
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
    assert not {name for name in loaded if name.startswith(("filters", "experiments", "deploy", "probes.replay"))}


def test_a_probe_that_reads_proc_does_not_load_the_tool_parsers() -> None:
    assert not {"probes.sources.vmstat", "probes.sources.pidstat", "probes.dry_run"}.intersection(imported(*EVERYTHING))


def test_the_command_compiles_what_the_agent_imports_before_it_becomes_the_agent() -> None:
    """Compiling takes more than a megabyte, which would stay with an agent that is the first to import something."""
    done = subprocess.run([sys.executable, "-c", BECOMING], capture_output=True, text=True, check=True, cwd=ROOT)
    ours = {name for name in imported(*EVERYTHING) if name.startswith(("acquisition", "probes", "hiredis"))}
    assert ours <= set(done.stdout.split())
