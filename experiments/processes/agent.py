"""Agent of a testbed host: starts parts as ordered, ends them with its stdin.

    python -m experiments.processes.agent HOME [own]     (orders and answers as JSON lines)

On this machine it is the first process in the namespaces of a host; on others ssh runs it, and ``own`` has it remove
HOME in the end. Either way no part outlives it, and it does not outlive its controller.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from acquisition import private_files
from acquisition.errors import ShardpulseError
from acquisition.link.resp import Address
from acquisition.shards.servers import machine, process, redis_binary
from acquisition.shards.servers.process import Shard
from acquisition.shards.servers.redis_binary import RedisBinary
from experiments.processes import temporary
from experiments.processes.control import Child, Orders, python, say

SHARD = "shard"  #: the directory of the shard in HOME
_STOP_SECONDS, _HEAR_SECONDS = 3.0, 1.0

Answer = dict[str, Any]


class Agent:
    """Carries out orders; ``stop`` ends all parts started by it."""

    def __init__(self, place: Path) -> None:
        self._home = place
        self._parts: dict[str, Child] = {}
        self._server: RedisBinary | None = None
        self._shard: tuple[Shard, subprocess.Popen[bytes]] | None = None
        self._actions: Mapping[str, Callable[..., Answer]] = {
            "clock": self._set_clock, "server": self._find_server, "files": self._write, "shard": self._start_shard,
            "start": self._start, "tell": self._tell, "hear": self._hear, "ended": self._ended,
        }  # fmt: skip

    def answer(self, order: Mapping[str, Any]) -> Answer:
        """Carry out an order; errors are returned under ``failed``."""
        arguments = {name: value for name, value in order.items() if name != "do"}
        try:
            return self._actions[order["do"]](**arguments)
        except (ShardpulseError, OSError) as error:
            return {"failed": str(error)}

    def stop(self) -> None:
        """End all parts, then the shard."""
        for part in self._parts.values():
            part.stop(_STOP_SECONDS)
        if self._shard is not None:
            process.stop([self._shard[0]], [self._shard[1]])

    def _set_clock(self, environment: dict[str, str]) -> Answer:
        """Set the clock of all parts started from now on."""
        os.environ.update(environment)
        return {}

    def _find_server(self) -> Answer:
        """Find this machine's server, and the core for it."""
        self._server = redis_binary.find()
        return {"path": self._server.path, "core": machine.cores()[0]}

    def _write(self, files: Mapping[str, str]) -> Answer:
        for name, text in files.items():
            path = self._home / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            private_files.write(path, text, replace=True)
        return {}

    def _start_shard(self, host: str, port: int) -> Answer:
        assert self._server is not None
        address, core = Address(host, port), machine.cores()[0]
        self._shard = process.launch(self._server, address, core, self._home / SHARD, tied=True)
        return {}

    def _start(self, part: str, module: str, arguments: list[str], talks: bool) -> Answer:
        """Start a Python program; one that ``talks`` exchanges messages."""
        with self._log(part).open("ab") as log:
            command = python(module, *arguments)
            self._parts[part] = Child(part, command, stderr=log, stdout=None if talks else log)
        return {}

    def _tell(self, part: str, message: Answer) -> Answer:
        """Send a message to a part."""
        self._parts[part].send(message)
        return {}

    def _hear(self, part: str) -> Answer:
        """Its next message, under ``message``; empty if none arrives within a moment: an agent that waited longer would
        not notice a lost controller."""
        talking = self._parts[part]
        return {"message": talking.receive(_HEAR_SECONDS)} if talking.speaks(_HEAR_SECONDS) else {}

    def _ended(self) -> Answer:
        """Programs that have ended by themselves, and the end of their output."""
        found = {name: self._last_words(name) for name, part in self._parts.items() if part.code is not None}
        if self._shard is not None and not self._shard[0].alive:
            found[SHARD] = process.last_words(self._home / SHARD)
        return {"ended": found}

    def _last_words(self, part: str) -> str:
        lines = self._log(part).read_text(errors="replace").strip().splitlines()
        return f"exit code {self._parts[part].code}: {lines[-1] if lines else 'it said nothing'}"

    def _log(self, part: str) -> Path:
        return self._home / f"{part}.log"


def main(arguments: list[str]) -> None:
    """Carry out orders until ``end``, or until the controller is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal is for the controller
    place = Path(arguments[0])
    agent, orders = Agent(place), Orders()
    with temporary.held(place) if arguments[1:] else contextlib.nullcontext():
        try:
            say({"ready": True})
            while (order := orders.wait())["do"] != "end":
                say(agent.answer(order))
        finally:
            agent.stop()
    say({"ended": True})


if __name__ == "__main__":
    main(sys.argv[1:])
