"""Prometheus server with real targets; processes end with the tests."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from acquisition import lifeline
from tests.support.waiting import eventually

#: Method, Accept header -> content type, body.
Answer = Callable[[str | None], tuple[str, bytes]]


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    """A child whose first lines of output can be read; stopped in order, or killed."""
    with log.open("wb") as file:
        child = subprocess.Popen(lifeline.tied(command), stdout=subprocess.PIPE, stderr=file, text=True)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        if child.stdout is not None:
            child.stdout.close()


@contextlib.contextmanager
def shardpulse(log: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A command of shardpulse as a process."""
    with running([sys.executable, "-m", "acquisition", *arguments], log) as child:
        yield child


@contextlib.contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """A small real HTTP server; yields HOST:PORT. Anything but /metrics is 404."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/metrics":
                self.send_error(404)
                return
            content_type, body = answer(self.headers.get("Accept"))
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class Prometheus:
    """The HTTP API of a running one."""

    def __init__(self, address: str) -> None:
        self.url = f"http://{address}"

    def get(self, path: str, **parameters: str) -> Any:
        """``data`` of an answer of the API."""
        query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}{query}", timeout=5) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path} {parameters}: {error.read().decode()}") from error

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query."""
        return list(self.get("query", query=expression)["result"])

    def value(self, expression: str) -> float:
        """The only value of an instant query, as soon as there is one: a scrape may fail on a busy machine."""
        (series,) = eventually(lambda: self.query(expression))
        return float(series["value"][1])


@contextlib.contextmanager
def prometheus(directory: Path, configuration: str) -> Iterator[Prometheus]:
    """A Prometheus with an empty database, ready to answer."""
    (directory / "prometheus.yml").write_text(configuration)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    command = [
        str(shutil.which("prometheus")), f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'data'}", f"--web.listen-address={address}", "--log.level=warn",
    ]  # fmt: skip
    with running(command, directory / "prometheus.log") as child:
        server = Prometheus(address)

        def ready() -> bool:
            assert child.poll() is None, (directory / "prometheus.log").read_text()
            try:
                with urllib.request.urlopen(f"{server.url}/-/ready", timeout=1) as answer:
                    return bool(answer.status == 200)
            except OSError:
                return False

        eventually(ready)
        yield server
