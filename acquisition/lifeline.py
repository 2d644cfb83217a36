"""Children that die with their parent, even when the parent is killed with -9.

A child asks the kernel for a signal at its parent's death (PR_SET_PDEATHSIG, prctl(2)),
which survives execve. The request is made by a short-lived Python between fork and
exec, not by a ``preexec_fn``, which may deadlock in a process with threads. The parent is, to the
kernel, the thread that started the child: start children from a long-lived thread.

This file is also run by path (``python lifeline.py SIGNAL PARENT COMMAND…``) and
imports only what that needs.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def tied(command: Sequence[str], death_signal: int = signal.SIGKILL) -> list[str]:
    """Command line that runs ``command`` (an absolute path and arguments) tied to this
    process: it gets ``death_signal`` as soon as this process ends, for any reason."""
    return [sys.executable, "-I", "-S", __file__, str(int(death_signal)), str(os.getpid()), *command]


def main(argv: list[str]) -> None:
    """Tie this process to its parent and become the command."""
    death_signal, parent, command = int(argv[0]), int(argv[1]), argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, death_signal, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before the request was made
        sys.exit(1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and exec would pass that on
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
