"""The import direction of the design, read from the source of every module."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

OWN = {"acquisition", "probes", "filters", "deploy", "experiments"}
ALLOWED = {
    "acquisition": {"acquisition"},
    "probes": {"acquisition", "probes"},
    "filters": {"acquisition", "filters"},
}
#: What would make every probe heavier by a megabyte or more.
HEAVY = {
    "argparse", "dataclasses", "hashlib", "importlib.metadata", "inspect", "logging",
    "msgspec", "numpy", "redis", "ssl", "subprocess", "tomllib",
}  # fmt: skip
LEAN = [
    "acquisition.errors",
    "acquisition.link.resp",
    "acquisition.model.codes",
    "acquisition.model.identity",
    "acquisition.model.metric",
    "acquisition.outbox.store",
    "acquisition.outbox.writer",
    "acquisition.wire.frame",
    "acquisition.wire.keys",
    "acquisition.wire.position",
    "acquisition.wire.table",
    "probes.agent",
    "probes.sources.pidstat_child",
    "probes.sources.procfs_host",
    "probes.sources.procfs_processes",
    "probes.sources.procfs_vms",
    "probes.sources.vmstat_child",
]


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("package", ALLOWED)
def test_packages_import_only_what_they_may(package):
    for path in sorted((ROOT / package).rglob("*.py")):
        own = {name.split(".")[0] for name in imports(path)} & OWN
        assert own <= ALLOWED[package], f"{path.relative_to(ROOT)} imports {own - ALLOWED[package]}"


@pytest.mark.parametrize("module", LEAN)
def test_what_the_probe_imports_stays_light(module):
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, env=bare())
    assert done.returncode == 0, done.stderr
    assert not HEAVY & set(done.stdout.split()), f"{module} imports {HEAVY & set(done.stdout.split())}"


def bare() -> dict[str, str]:
    """An environment in which only hiredis is found beside the checkout: -S leaves site-packages out."""
    import hiredis

    return {"PYTHONPATH": f"{ROOT}:{Path(hiredis.__file__).resolve().parents[1]}"}


def test_finding_a_command_imports_no_sibling():
    code = "import sys; from acquisition import cli; cli.commands(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"probes", "filters", "numpy", "msgspec"} & {name.split(".")[0] for name in loaded}
