"""Guests of a few kilobytes: a busy boot floppy, and the QMP socket of qemu."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from acquisition.errors import UnavailableError

_QEMU = "qemu-system-x86_64"
_LOADED_AT = 0x7C00
_PATIENCE = 30.0


def busy_floppy() -> bytes:
    """A boot sector that enters protected mode and loops for ever, on a floppy of 1.44 MB."""
    body = b"\xb8\x10\x00\x00\x00\x8e\xd8\x8e\xc0\x8e\xd0\xeb\xfe"  # 32 bits: mov eax,16; mov ds,es,ss,ax; jmp $
    table = b"\0" * 8 + b"\xff\xff\0\0\0\x9a\xcf\0" + b"\xff\xff\0\0\0\x92\xcf\0"  # nothing, code, data
    start = b"\xfa\x31\xc0\x8e\xd8\x0f\x01\x16%s\x0f\x20\xc0\x66\x83\xc8\x01\x0f\x22\xc0\xea%s\x08\x00"
    size = len(start % (b"xx", b"xx"))
    table_at = _LOADED_AT + size + len(body)
    code = start % (struct.pack("<H", table_at + len(table)), struct.pack("<H", _LOADED_AT + size))
    sector = code + body + table + struct.pack("<HI", len(table) - 1, table_at)
    return sector.ljust(510, b"\0") + b"\x55\xaa" + bytes(1440 * 1024 - 512)


class Monitor:
    """The QMP socket of a qemu process."""

    def __init__(self, path: Path) -> None:
        deadline = time.monotonic() + _PATIENCE
        self._socket = socket.socket(socket.AF_UNIX)
        while True:
            try:
                self._socket.connect(str(path))
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise UnavailableError(f"{_QEMU} does not open {path}: {error}") from error
                time.sleep(0.05)
        self._file = self._socket.makefile("rw")
        self._file.readline()
        self.ask("qmp_capabilities")

    def ask(self, command: str, **arguments: object) -> Any:
        """The answer to a command. Raises UnavailableError if it is an error."""
        self._file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._file.flush()
        for line in self._file:
            answer = json.loads(line)
            if "error" in answer:
                raise UnavailableError(f"{_QEMU} refuses {command}: {answer['error'].get('desc')}")
            if "return" in answer:
                return answer["return"]
        raise UnavailableError(f"{_QEMU} has ended")

    def end(self) -> None:
        """Quit, and wait for the end."""
        self._file.write('{"execute": "quit"}\n')
        self._file.flush()
        with suppress(OSError):
            self._file.read()
        self.close()

    def kill(self) -> None:
        """End the process at once, in any state, and wait until it is gone."""
        pid = struct.unpack("3i", self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        with suppress(OSError):  # it may have ended
            os.kill(pid, signal.SIGKILL)
            self._file.read()
        self.close()

    def close(self) -> None:
        """Close the socket of a process that may have ended."""
        with suppress(OSError):
            self._file.close()
        self._socket.close()
