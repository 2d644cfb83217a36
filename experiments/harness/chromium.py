"""Headless Chromium, driven by the DevTools protocol over a pipe.

It needs no port, no driver, and no installation except itself.

Protocol: https://chromedevtools.github.io/devtools-protocol/; messages are JSON terminated by a NUL byte.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from acquisition.errors import UnavailableError
from experiments.processes import needs

_FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--mute-audio",
    "--no-proxy-server", "--remote-debugging-pipe", "about:blank",
)  # fmt: skip
_PATIENCE = 30.0
_NETWORK_CHANGED = "net::ERR_NETWORK_CHANGED"
_KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40,
         "Home": 36, "End": 35}  # fmt: skip


class Page:
    """One page. ``problems`` are console errors, exceptions and reports of the browser (as of the security policy);
    ``requests`` are the addresses that it requested.

    Chromium drops every request under way when a network interface of the machine comes or goes. That is no problem
    of the page: ``open`` loads it again.
    """

    def __init__(self, reader: int, writer: int) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self._reader, self._writer = reader, writer
        self._buffer = b""
        self._number = 0
        self._interruptions = 0
        self._session = ""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of one command. Raises UnavailableError if the browser is gone or refuses it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._writer, data) :]
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            answer = self._receive(deadline - time.monotonic())
            if answer is not None and answer.get("id") == self._number:
                if "error" in answer:
                    raise UnavailableError(f"{method}: {answer['error'].get('message')}")
                return answer["result"]
        raise UnavailableError(f"{method}: no answer within {_PATIENCE:.0f} s")

    def evaluate(self, expression: str) -> Any:
        """The value of an expression (a promise is awaited). Raises UnavailableError with the script's exception."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise UnavailableError(details.get("exception", {}).get("description", details["text"]))
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = 10.0) -> Any:
        """The first true value of an expression. Raises UnavailableError if there is none in time."""
        deadline = time.monotonic() + seconds
        while not (value := self.evaluate(expression)):
            if time.monotonic() > deadline:
                raise UnavailableError(f"not true within {seconds} s: {expression}; {self.problems}")
            time.sleep(0.05)
        return value

    def open(self, url: str) -> None:
        """Go to an address, and repeat that if the machine's network changed meanwhile."""
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            before = self._interruptions
            self.call("Page.navigate", url=url)
            self.until("document.readyState === 'complete'")
            if self._interruptions == before:
                return
            time.sleep(0.2)
        raise UnavailableError(f"{url}: the machine's network changed each time that it was loaded")

    def press(self, *keys: str) -> None:
        """Press keys one after another."""
        for key in keys:
            known = {"key": key, "code": key, "windowsVirtualKeyCode": _KEYS.get(key, 0)}
            text = {"text": "\r"} if key == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **known, **text)
            self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def media(self, scheme: str) -> None:
        """Set the system's preferred colour scheme: ``dark`` or ``light``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def size(self, width: int, height: int) -> None:
        """The size of the window in CSS pixels."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def screenshot(self, path: Path, whole: bool = False) -> None:
        """A PNG of the window, or of the whole page."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    def _receive(self, seconds: float) -> Any:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._reader], [], [], max(0.0, seconds))
            if not ready:
                return None
            piece = os.read(self._reader, 1 << 20)
            if not piece:
                raise UnavailableError("the browser has ended")
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, parameters: Any) -> None:
        if method == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self._note_report(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
            self.problems.append(str([each.get("value") for each in parameters["args"]]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(parameters["request"]["url"])

    def _note_report(self, text: str) -> None:
        if _NETWORK_CHANGED in text:
            self._interruptions += 1
        else:
            self.problems.append(text)


@contextlib.contextmanager
def chromium() -> Iterator[Page]:
    """A page in a browser of its own, which ends with the block. Raises UnavailableError without Chromium."""
    if (program := needs.browser()) is None:
        raise UnavailableError(needs.chromium())
    with tempfile.TemporaryDirectory(prefix="shardpulse-", ignore_cleanup_errors=True) as profile:
        pid, reader, writer = _start(program, profile)
        try:
            yield Page(reader, writer)
        finally:
            os.close(writer)  # it ends when its command pipe is closed
            os.close(reader)
            _end(pid)


def _start(program: str, profile: str) -> tuple[int, int, int]:
    commands, answers = os.pipe(), os.pipe()
    # above 3 and 4, used by the browser to read and write
    ours, theirs = fcntl.fcntl(commands[0], fcntl.F_DUPFD, 10), fcntl.fcntl(answers[1], fcntl.F_DUPFD, 10)
    null = os.open(os.devnull, os.O_RDWR)
    actions = [
        (os.POSIX_SPAWN_DUP2, null, 1), (os.POSIX_SPAWN_DUP2, null, 2),
        (os.POSIX_SPAWN_DUP2, ours, 3), (os.POSIX_SPAWN_DUP2, theirs, 4),
        (os.POSIX_SPAWN_CLOSE, ours), (os.POSIX_SPAWN_CLOSE, theirs),
    ]  # fmt: skip
    arguments = [program, f"--user-data-dir={profile}", *_FLAGS]
    environment = {**os.environ, "HOME": profile, "TMPDIR": profile}
    pid = os.posix_spawn(program, arguments, environment, file_actions=actions, setpgroup=0)
    for number in (commands[0], answers[1], ours, theirs, null):
        os.close(number)
    return pid, answers[0], commands[1]


def _end(pid: int) -> None:
    deadline = time.monotonic() + 5.0
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            break
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)  # its surviving children
