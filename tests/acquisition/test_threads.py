"""A process does not live on without a thread of its own."""

from __future__ import annotations

import subprocess
import sys

from acquisition.errors import EXIT_INTERNAL

CODE = """
import threading, time
from acquisition.terminal import say
from acquisition.supervision import end_with_threads
end_with_threads(say)
threading.Thread(target=lambda: 1 / 0, name="reading").start()
time.sleep(60)
"""


def test_a_thread_that_ends_by_a_fault_ends_the_process_and_is_told() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], stderr=subprocess.PIPE, text=True, timeout=50)
    assert done.returncode == EXIT_INTERNAL
    assert done.stderr.startswith("internal error (bug): reading died")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n\n")
