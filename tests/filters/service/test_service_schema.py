"""Schemathesis against the interface description of a running service: it finds nothing.

The stream is left out, because it never ends; its one parameter and header are tested by hand beside it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.shards.servers.launch import Shards
from tests.support.emptied import emptied
from tests.support.serving import Feeding, Serving

#: More was run by hand: 30 examples, and the phase "stateful".
EXAMPLES = os.environ.get("SHARDPULSE_SCHEMA_EXAMPLES", "4")
PHASES = os.environ.get("SHARDPULSE_SCHEMA_PHASES", "coverage,fuzzing")


@pytest.fixture(scope="module")
def service(shards: Shards, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with (
        emptied(shards) as cluster,
        Feeding(cluster),
        Serving(tmp_path_factory.mktemp("schema"), shards.addresses) as serving,
    ):
        yield serving.ready()
        assert "Traceback" not in serving.log.read_text()


def test_schemathesis_finds_nothing(service: Serving, tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{service.url}/openapi.json"]
    chosen = ["--exclude-path", "/v1/stream", "--phases", PHASES, "--max-examples", EXAMPLES, "--no-color"]
    writing = ["-H", f"Authorization: Bearer {service.token}"]
    done = subprocess.run([*command, *chosen, *writing], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, "\n".join(line[:300] for line in done.stdout.splitlines())
    assert re.search(r"Tested: +17\b", done.stdout), done.stdout
    assert service.ask("/v1/hosts").status == 200
