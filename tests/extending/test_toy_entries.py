"""What needs no file of its own is one entry of one table: each is added to a copy of the product, and found."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

_PACKAGES = ("acquisition", "probes", "filters")
#: File, what stands there, and what stands there with the entry.
ENTRIES = (
    ("probes/tools/vmstat.py", r'(    b"gu": .*\n)', r'\1    b"toys": ("tasks_toy", _PLAIN),\n'),
    (
        "probes/metrics/__init__.py",
        r'(    share\("cpu_guest_ratio".*\n)(?=\)\n)',
        r'\1    tasks("tasks_toy", "toys"),\n',
    ),
    ("acquisition/config/inputs.py", r"(DEFAULT_THRESHOLDS = .*)0\.9", r"\g<1>0.95"),
    ("acquisition/config/archive.py", r"(    minutes_days: .* = )2\.0", r"\g<1>3.0"),
    ("acquisition/shards/servers/redis_binary.py", r"NAMES = \(", 'NAMES = ("toy-server", '),
    (
        "filters/top/columns.py",
        r"(?s)(COLUMNS: .*?_STATE,\n)",
        r'\1        Column("toy", "TOY", text=lambda rows, at: "toy"),\n',
    ),
    (
        "filters/prometheus/pipeline.py",
        r'(    \("workers", GAUGE)',
        r'    ("toys", GAUGE, "", "Toys of the filter", lambda health: 1),\n\1',
    ),
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product with the entries."""
    directory = tmp_path_factory.mktemp("tree")
    for package in _PACKAGES:
        shutil.copytree(ROOT / package, directory / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, before, after in ENTRIES:
        text, entries = re.subn(before, after, (directory / name).read_text(), count=1)
        assert entries == 1, f"{name} has no place for its entry"
        (directory / name).write_text(text)
    return directory


def printed(tree: Path, *arguments: str, **environment: str) -> str:
    """What Python prints there."""
    command, environ = [sys.executable, *arguments], os.environ | environment
    done = subprocess.run(command, cwd=tree, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def shardpulse(tree: Path, *arguments: str) -> str:
    """What ``shardpulse ARGUMENTS`` prints there."""
    return printed(tree, "-m", "acquisition", *arguments)


def test_column_of_vmstat_is_replayed(tree: Path) -> None:
    (tree / "captured").write_text(
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st gu toys\n"
        "20  0      0 17899468   3168 441468    0    0   382   110  266  510  5  2 92  0  0  0    1\n"
        " 6  0      0 17899468   3168 441468    0    0  1980 42016 6434 13089 48 51  0  1  0  0    7\n"
    )
    replayed = json.loads(shardpulse(tree, "replay", "vmstat", "captured").splitlines()[0])
    assert replayed["metrics"]["tasks_toy"] == 7


def test_threshold_reaches_filter_and_rule(tree: Path) -> None:
    assert '"host.cpu_busy_ratio" = 0.95' in shardpulse(tree, "config")
    assert "high=0.95" in shardpulse(tree, "query", "hot", "--help")


def test_retention_reaches_configuration_and_removal(tree: Path) -> None:
    assert "\nminutes_days = 3.0\n" in shardpulse(tree, "config")
    code = (
        "from acquisition.config.archive import Archive\n"
        "from filters.archive.database import retention\n"
        "print(retention.limits(Archive(), 0.0)['rollups_1m'])"
    )
    assert int(printed(tree, "-c", code)) == -3 * 86400


def test_server_is_found(tree: Path, tmp_path: Path) -> None:
    server = tmp_path / "toy-server"
    server.write_text("#!/bin/sh\necho Toy server v=9.9.9\n")
    server.chmod(0o755)
    code = "from acquisition.shards.servers.redis_binary import find; print(find().name)"
    place = f"{tmp_path}:{os.environ['PATH']}"
    assert printed(tree, "-c", code, PATH=place, SHARDPULSE_REDIS_SERVER="") == "Toy 9.9.9\n"


def test_column_of_top_is_printed(tree: Path, hosts: str) -> None:
    assert "TOY" in shardpulse(tree, "top", "--once", "--shards", hosts).split()


def test_figure_for_prometheus_is_in_the_catalogue(tree: Path) -> None:
    catalogue = printed(tree, "-m", "filters.prometheus.catalogue")
    assert "| `shardpulse_filter_toys` |  | Toys of the filter |" in catalogue
