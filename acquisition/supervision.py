"""Supervision: name of the process, state for systemd, end with its threads.

Linux shows the memory that the arguments lay in at the start, and 15 bytes of a name (``shardpulse: filter --config …``
in `ps aux`, ``shardpulse-filt`` in `top`); both are writable by the process (proc(5)). If the system forbids it,
they stay unchanged.

systemd learns the state of the process by sd_notify(3), datagrams to the socket in $NOTIFY_SOCKET. Only the
loop that does the work calls ``turn``, so nothing else feeds the watchdog: if the loop is stuck, systemd gets
no more messages and ends it. Without a listener all of it costs next to nothing.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import _socket
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import inf

from acquisition.errors import EXIT_INTERNAL

_STATUS_SECONDS = 1.0  #: between two texts: a problem may change its text at every attempt
_MOST_TEXT = 1000  #: characters
_SHORT = 15
_ARGUMENTS_START, _ARGUMENTS_END = 45, 46  #: in /proc/self/stat, counted from the state of the process (fields 48, 49)


class Notifier:
    """``due`` is the latest time to call ``turn``, by CLOCK_MONOTONIC; infinite without a listener."""

    def __init__(self) -> None:
        """Read $NOTIFY_SOCKET and $WATCHDOG_USEC, and remove them: they are not meant for children."""
        address = os.environ.pop("NOTIFY_SOCKET", "")
        microseconds = os.environ.pop("WATCHDOG_USEC", "")
        meant = os.environ.pop("WATCHDOG_PID", "") in ("", str(os.getpid()))
        self.due = inf
        self._socket: _socket.socket | None = None
        self._owes_ready = self._reloads = False
        if address[:1] not in ("/", "@"):
            return
        self._address = f"\0{address[1:]}" if address[0] == "@" else address
        kind = _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC
        self._socket = _socket.socket(_socket.AF_UNIX, kind)
        # half of the time, as sd_watchdog_enabled(3) advises
        half = int(microseconds) / 2e6 if meant and microseconds.isdecimal() else 0.0
        self._interval = half or inf
        self._text = ""
        self._text_due = 0.0
        self._watchdog_due = 0.0 if half else inf

    def ready(self) -> None:
        """Have the next ``turn`` report that startup is complete."""
        self._owes_ready = True

    def turn(self, tell: Callable[[], str]) -> None:
        """Call at every turn of the loop: reports the condition, the text returned by ``tell`` for `systemctl
        status`, and that the loop turns. Undelivered messages are sent at the next turn."""
        if self._socket is None:
            return
        now = time.monotonic()
        text = " ".join(tell().split())[:_MOST_TEXT]
        changed, feeds = text != self._text, now >= self._watchdog_due
        lines = []
        owed_ready, self._owes_ready = self._owes_ready, False  # a signal may require the next one meanwhile
        if owed_ready:
            lines.append("READY=1")
        if changed and now >= self._text_due:
            lines.append(f"STATUS={text}")
            changed = False
        if feeds:
            lines.append("WATCHDOG=1")
        if lines and self._send(lines):
            if not changed:
                self._text, self._text_due = text, now + _STATUS_SECONDS
            if feeds:
                self._watchdog_due = now + self._interval
        elif lines:
            self._owes_ready |= owed_ready
        self.due = min(self._watchdog_due, self._text_due if changed else inf)

    def reloading(self) -> None:
        """Report that the configuration is being read again."""
        self._reloads = True
        self._send(["RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}"])

    def reloaded(self) -> None:
        """Report the end of that, if it was reported, whatever its result."""
        self._owes_ready |= self._reloads
        self._reloads = False

    def stopping(self, text: str = "stopping") -> None:
        """Report that the process is stopping; nothing is reported after that."""
        self._send(["STOPPING=1", f"STATUS={text}"])

    def _send(self, lines: list[str]) -> bool:
        if self._socket is None:
            return False
        try:
            self._socket.sendto("\n".join(lines).encode(errors="replace"), self._address)
        except OSError:  # its queue is full, or the listener is gone
            return False
        return True


def name_process(role: str, arguments: Sequence[str] = ()) -> None:
    """Take the name ``role``; ``arguments`` are shown as far as there is room."""
    with suppress(OSError, ValueError), open("/proc/self/comm", "w", encoding="ascii") as comm:
        comm.write(f"shardpulse-{role}"[:_SHORT])
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ARGUMENTS_START]), int(fields[_ARGUMENTS_END])
        words = [f"shardpulse: {role}", *arguments]
        text = b"".join(word.encode(errors="surrogateescape") + b"\0" for word in words)[: max(0, end - start - 1)]
        if start and text:
            _write(start, text.ljust(end - start, b"\0"))


def _write(address: int, data: bytes) -> None:
    memory = os.open("/proc/self/mem", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.pwrite(memory, data, address)
    finally:
        os.close(memory)


def end_with_threads(report: Callable[[str], None]) -> None:
    """From now on report an exception unhandled in any thread and end this process at once, with
    EXIT_INTERNAL: like kill -9, which every part survives, so that its supervisor restarts it: without one of
    its threads it would look healthy and do nothing."""
    import threading  # neither is for the probe, which has one thread
    import traceback

    def end(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_type is SystemExit:
            return
        name = failed.thread.name if failed.thread is not None else "a thread"
        text = "".join(traceback.format_exception(failed.exc_type, failed.exc_value, failed.exc_traceback))
        report(f"internal error (bug): {name} died: {text}")
        os._exit(EXIT_INTERNAL)

    threading.excepthook = end
