"""Control protocol with child programs: JSON lines on stdin and stdout."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from typing import IO, Any, Self

from acquisition import lifeline
from acquisition.errors import ShardpulseError
from acquisition.shards.servers.machine import start_time

_STOP_SECONDS = 10.0


class ChildFailed(ShardpulseError):
    """A program of the benchmark ended or fell silent."""


class Child:
    """A child program, tied to the life of the thread that started it; a context manager that ends it. Its stderr is
    ours unless ``stderr`` is given; with ``stdout`` it sends no messages."""

    def __init__(
        self,
        name: str,
        command: list[str],
        environment: dict[str, str] | None = None,
        stderr: IO[bytes] | None = None,
        stdout: IO[bytes] | None = None,
    ) -> None:
        self.name = name
        self._process = subprocess.Popen(
            lifeline.tied(command),
            stdin=subprocess.PIPE,
            stdout=stdout or subprocess.PIPE,
            stderr=stderr,
            env=dict(os.environ, **(environment or {})),
        )
        self._buffer = b""
        self._selector = selectors.DefaultSelector()
        if self._process.stdout is not None:
            self._selector.register(self._process.stdout, selectors.EVENT_READ)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs, or is suspended by a signal."""
        return self._process.poll()

    def send(self, message: dict[str, Any]) -> None:
        """Send it a message. Raises ChildFailed if it is gone."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ChildFailed(f"the {self.name} is gone: {error}") from error

    def speaks(self, seconds: float) -> bool:
        """Whether it sends a message, or ends, within ``seconds``."""
        return b"\n" in self._buffer or bool(self._selector.select(seconds))

    def receive(self, seconds: float) -> dict[str, Any]:
        """Its next message. Raises ChildFailed if it ends, or sends nothing for ``seconds``."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            if not self.speaks(max(0.0, deadline - time.monotonic())):
                raise ChildFailed(f"the {self.name} said nothing for {seconds:g} s")
            data = os.read(self._process.stdout.fileno(), 1 << 20)
            if not data:
                raise ChildFailed(f"the {self.name} ended with exit code {self._process.wait(_STOP_SECONDS)}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def check(self) -> None:
        """Raises ChildFailed if it has ended."""
        if start_time(self.pid) is None:
            raise ChildFailed(f"the {self.name} ended with exit code {self._process.wait(_STOP_SECONDS)}")

    def kill(self) -> None:
        """End it at once, in any state; harmless if it has ended."""
        self._process.kill()
        self.stop()

    def stop(self, patience: float = _STOP_SECONDS) -> int:
        """End it: SIGTERM, then SIGKILL. Its exit code; harmless if it has ended."""
        self._selector.close()
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                if pipe is not None:
                    pipe.close()
        self._process.terminate()
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(_STOP_SECONDS)


@contextlib.contextmanager
def group(command: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A program without messages, found on the PATH, as a process group that is killed at the end of the block; its
    leader also dies with this thread."""
    tied = lifeline.tied([shutil.which(command[0]) or command[0], *command[1:]])
    process = subprocess.Popen(tied, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def python(module: str, *arguments: str) -> list[str]:
    """The command that runs a module with this interpreter."""
    return [sys.executable, "-m", module, *arguments]


def product(command: str, config: object, shards: Iterable[object]) -> list[str]:
    """``shardpulse COMMAND`` with a configuration file and the addresses of shards, run by this interpreter."""
    return python("acquisition", command, "--config", str(config), "--shards", ",".join(map(str, shards)))


def say(message: dict[str, Any]) -> None:
    """Send a message from a child to its parent."""
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Orders:
    """A child's side of the conversation: ``fileno`` for select, ``read`` for available orders."""

    def __init__(self) -> None:
        self._buffer = b""

    def fileno(self) -> int:
        """Standard input."""
        return sys.stdin.fileno()

    def wait(self) -> dict[str, Any]:
        """The next order; ends the program if the parent is gone."""
        while b"\n" not in self._buffer:
            self._fill()
        return self._next()

    def read(self) -> list[dict[str, Any]]:
        """The orders completed by one read of standard input: call when it is readable."""
        self._fill()
        orders = []
        while b"\n" in self._buffer:
            orders.append(self._next())
        return orders

    def _fill(self) -> None:
        data = os.read(self.fileno(), 1 << 16)
        if not data:
            raise SystemExit(0)
        self._buffer += data

    def _next(self) -> dict[str, Any]:
        line, _, self._buffer = self._buffer.partition(b"\n")
        order: dict[str, Any] = json.loads(line)
        return order
