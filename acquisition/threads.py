"""A thread that ends by a fault ends the process: one that lived on without it would look well and do nothing."""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable

from acquisition.errors import EXIT_INTERNAL


def end_with_threads(report: Callable[[str], None]) -> None:
    """From now on an exception that nobody handles in any thread is reported and ends this process at once, with
    EXIT_INTERNAL: as kill -9 does, which every part survives, so that its supervisor starts it again."""

    def end(failed: threading.ExceptHookArgs) -> None:
        if failed.exc_type is SystemExit:
            return
        name = failed.thread.name if failed.thread is not None else "a thread"
        text = "".join(traceback.format_exception(failed.exc_type, failed.exc_value, failed.exc_traceback))
        report(f"{name} has ended (a fault of shardpulse): {text}")
        os._exit(EXIT_INTERNAL)

    threading.excepthook = end
