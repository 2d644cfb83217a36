"""Service under load: ``shardpulse serve`` on one core, awaited until ready."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from acquisition import lifeline
from acquisition.errors import UnavailableError
from experiments.processes.control import product
from experiments.processes.waiting import eventually, pause

_READY_SECONDS = 60.0


class Service:
    """A running service; ``pid`` and ``port`` are its own."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.pid = process.pid
        self.port = port

    def url(self, path: str) -> str:
        """The URL of a path."""
        return f"http://127.0.0.1:{self.port}{path}"

    def ask(self, path: str) -> Any:
        """The JSON answer of a path; None unless it is 200."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=30.0)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            return json.loads(body) if answer.status == 200 else None

    def wait_for(self, hosts: int, hot: int, seconds: float = _READY_SECONDS) -> None:
        """Wait until this number of hosts is listed and judged. Raises UnavailableError if that takes too long."""

        def judged() -> bool:
            found = self.ask("/v1/hot") or {"hosts": None}
            return found["hosts"] == hosts and len(found["hot"] or ()) >= hot and not found["abstained"]

        def problem() -> str:
            found = self.ask("/v1/hot")
            seen = {key: len(found[key] or ()) for key in ("hot", "abstained")} if found else "nothing"
            return f"the service does not see {hosts} hosts, {hot} of them hot, but {seen}"

        eventually(judged, seconds, problem, partial(pause, 0.5), UnavailableError)


@contextlib.contextmanager
def serving(addresses: Sequence[object], directory: Path, core: int) -> Iterator[Service]:
    """The service, pinned to one core, until the end of the block."""
    config = directory / "serve.toml"
    config.write_text("[serve]\nbind = '127.0.0.1:0'\n")
    command = product("serve", config, addresses)
    with subprocess.Popen(lifeline.tied(command), stdout=subprocess.PIPE, text=True) as process:
        try:
            os.sched_setaffinity(process.pid, {core})  # before it has threads, which inherit it
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise UnavailableError("the service did not start")
            yield Service(process, int(line.rpartition(":")[2]))
        finally:
            process.terminate()
            process.wait(10.0)
