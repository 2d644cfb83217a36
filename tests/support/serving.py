"""Serving scene: a running ``shardpulse serve``, a client, and live hosts."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from acquisition import private_files
from acquisition.errors import ShardpulseError
from acquisition.link.cluster import Cluster
from tests.support.scene import Scene
from tests.support.waiting import PATIENCE, eventually

HOSTS = ("web-1", "web-2")
SILENT = "silent"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Feeding:
    """Writes the records of ``HOSTS`` for every tick until it ends; ``SILENT`` has said something once."""

    def __init__(self, cluster: Cluster) -> None:
        self.scene = Scene(cluster)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.begin()
        self.feed()

    def begin(self) -> None:
        self.scene.host(SILENT, [int(time.time()) - 30])

    def feed(self) -> None:
        now = int(time.time())
        for host in HOSTS:
            self.scene.host(host, [now - 2, now - 1, now])
            self.scene.host(host, [now - 2, now - 1, now], resource_set="host", names=[host])

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            with suppress(ShardpulseError):  # shards that a test has stopped come back
                self.feed()

    def __enter__(self) -> Feeding:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._stop.set()
        self._thread.join(5)


class Serving:
    """A service in a process of its own, on a free port."""

    def __init__(
        self,
        directory: Path,
        addresses: Sequence[object],
        serve: str = "",
        scheme: str = "http",
        program: Sequence[str] = ("-m", "acquisition"),
        log: str = "",
    ) -> None:
        config = directory / "shardpulse.toml"
        self.token = os.urandom(16).hex()
        private_files.write(directory / "writer.token", f"{self.token}\n", replace=True)
        listed = ", ".join(f'"{address}"' for address in addresses)
        config.write_text(
            f"[shards]\naddresses = [{listed}]\ntimeout_seconds = 1.0\n[serve]\nbind = '127.0.0.1:0'\n"
            f"write_token_file = '{directory}/writer.token'\n{serve}"
        )
        command = [sys.executable, *program, "serve", "--config", str(config)]
        self.log = Path(log) if log else directory / "serve.log"
        with open(self.log, "wb") as stderr:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1]
        assert self.url.startswith(f"{scheme}://"), self.log.read_text()
        self.port = int(self.url.rpartition(":")[2])

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def ask(
        self, path: str, method: str = "GET", headers: dict[str, str] | None = None, body: bytes | None = None
    ) -> Reply:
        connection = self.connection()
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Reply(answer.status, names, answer.read())
        finally:
            connection.close()

    def report(self, **said: str) -> Reply:
        """What comes back for a report of a migration."""
        return self.post(json.dumps(said).encode())

    def post(self, body: bytes, kind: str = "application/json", token: str | None = None) -> Reply:
        """What comes back for a body that is sent as a report, with the token for writing where none is given."""
        headers = {"Content-Type": kind, "Authorization": f"Bearer {self.token if token is None else token}"}
        return self.ask("/v1/migrations", "POST", headers, body)

    def raw(self, data: bytes, seconds: float = 3.0) -> bytes:
        """What comes back for bytes that need not be HTTP, until the other side closes or says nothing more for so many
        seconds."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as plug:
            got = b""
            try:
                plug.sendall(data)
                while part := plug.recv(65536):
                    got += part
                    plug.settimeout(seconds)
            except (TimeoutError, ConnectionError):
                pass
            return got

    def until(self, path: str, good: Callable[[Reply], bool], seconds: float = PATIENCE) -> Reply:
        return eventually(lambda: reply if good(reply := self.ask(path)) else None, seconds, says=self.log.read_text)

    def ready(self) -> Serving:
        self.until("/v1/hosts", lambda reply: reply.status == 200)
        return self

    def end(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Serving:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.end()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise
        finally:
            assert self.process.stdout is not None
            self.process.stdout.close()


class Events:
    """A client of the stream."""

    def __init__(self, serving: Serving, path: str = "/v1/stream", last: object = None) -> None:
        self._connection = serving.connection()
        self._connection.request("GET", path, headers={} if last is None else {"Last-Event-ID": str(last)})
        self.answer = self._connection.getresponse()

    def next(self) -> dict[str, str]:
        """The next event as its fields; empty when the stream has ended."""
        fields: dict[str, str] = {}
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if not line.strip() and "event" in fields:
                return fields
            if name:
                fields[name] = value
        return {}

    def close(self) -> None:
        self.answer.close()
        self._connection.close()
