"""Service manager stand-in: a listener at $NOTIFY_SOCKET, as systemd is."""

from __future__ import annotations

import socket
from pathlib import Path
from types import TracebackType


class Manager:
    """Listens at a path, or at an abstract address that begins with ``@``."""

    def __init__(self, address: Path | str) -> None:
        self._address = str(address)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(f"\0{self._address[1:]}" if self._address.startswith("@") else self._address)
        self._socket.setblocking(False)
        self.history: list[str] = []  #: everything so far

    def __enter__(self) -> Manager:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def environment(self, watchdog: float = 0.0) -> dict[str, str]:
        """What it starts services with; ``watchdog`` in seconds, 0 for none."""
        limit = {"WATCHDOG_USEC": str(round(watchdog * 1e6))} if watchdog else {}
        return {"NOTIFY_SOCKET": self._address, **limit}

    def heard(self) -> list[str]:
        """What has come since, line by line."""
        lines: list[str] = []
        while True:
            try:
                lines += self._socket.recv(65536).decode().split("\n")
            except BlockingIOError:
                self.history += lines
                return lines

    def was_told(self, *beginnings: str) -> bool:
        """Whether lines that begin so have come by now, in that order, others between them."""
        self.heard()
        lines = iter(self.history)
        return all(any(line.startswith(beginning) for line in lines) for beginning in beginnings)
