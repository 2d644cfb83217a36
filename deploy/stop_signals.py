"""Stop signals (Ctrl-C, SIGTERM, closed terminal) as a condition to wait for.

Nothing is interrupted midway.
"""

from __future__ import annotations

import os
import select
import signal
import time
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """Records the signals that request an end; further ones have no effect."""

    def __init__(self) -> None:
        self.came = False
        self._readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
        for number in _SIGNALS:
            if number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN:
                continue  # started by nohup(1): it continues without its terminal
            signal.signal(number, self._note)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)  # deploy/environment.py has blocked them until here

    def wait_until(self, deadline: float) -> bool:
        """Sleep until ``deadline`` (monotonic seconds); True as soon as a signal arrives."""
        while not self.came:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            if select.select([self._readable], [], [], min(left, 60.0))[0]:
                os.read(self._readable, 4096)
        return True

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.came = True
