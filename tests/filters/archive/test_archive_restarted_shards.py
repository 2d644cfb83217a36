"""``archive run`` over ``shards down`` and ``up``: what it had in memory alone, and no stream holds any more."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from acquisition.cli import main
from acquisition.config import loader
from acquisition.config.endpoints import connect
from acquisition.errors import EXIT_OK, EXIT_TEMPORARY
from acquisition.shards.servers import machine
from acquisition.wire import frame as wire
from acquisition.wire import keys
from tests.support.archive_scene import frame
from tests.support.waiting import eventually

HOST, SAMPLES = 7, 4  #: of a frame


def test_what_is_in_memory_alone_survives_a_restart_of_the_shards(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, port = tmp_path / "shardpulse.toml", machine.free_ports(1)[0]
    config.write_text(
        f'[shards]\ndirectory = "{tmp_path / "shards"}"\ncount = 1\nbase_port = {port}\nmaxmemory_bytes = 67108864\n'
        f'[archive]\nurl = "sqlite:///{tmp_path / "archive.db"}"\n'
    )
    began = int(time.time())
    stream = keys.raw(keys.tags(keys.DEFAULT_PARTITIONS)[keys.partition_of(HOST, keys.DEFAULT_PARTITIONS)])

    def shards(action: str) -> None:
        assert main(["shards", action, "--config", str(config)]) == EXIT_OK

    def push(first: int, last: int) -> None:
        cluster = connect(loader.load(str(config)).shards)
        for number in range(first, last + 1):
            cluster.call(stream, "XADD", stream, "*", "f", wire.encode(frame(HOST, number, began + number)))
        cluster.close()

    def reader() -> dict[str, Any]:
        capsys.readouterr()
        code = main(["archive", "status", "--config", str(config), "--json"])
        assert code in (EXIT_OK, EXIT_TEMPORARY)
        (found,) = json.loads(capsys.readouterr().out)["readers"] or [{"made": 0}]
        return found

    shards("up")
    command = [sys.executable, "-m", "acquisition", "archive", "run", "--finish", "--json", "--config", str(config)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        push(1, 10)
        eventually(lambda: reader()["made"] == 10 * SAMPLES)
        shards("down")
        shards("up")
        push(11, 20)
        eventually(lambda: reader()["made"] == 20 * SAMPLES)
        process.send_signal(signal.SIGTERM)
        counters = json.loads(process.communicate(timeout=60)[0])
        assert (counters["archived"], counters["gap"], counters["open"]) == (20 * SAMPLES, 0, 0)
    finally:
        process.kill()
        process.wait()
        shards("down")
