"""Commands that answer again and again with ``--watch``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from acquisition import help_text
from acquisition.errors import EXIT_OK, ShardpulseError
from acquisition.log import Category
from acquisition.trouble_log import SHARDS, TroubleLog


def add_watch(parser: argparse.ArgumentParser) -> None:
    """``--json``, ``--watch`` and ``--count``, as ``repeat`` wants them."""
    parser.add_argument("--json", action="store_true", help="one JSON document; with --watch one per line")
    parser.add_argument(
        "--watch", nargs="?", type=help_text.number(0.01, 86400), const=1.0, metavar="S",
        help="repeat every S seconds (1) until Ctrl-C",
    )  # fmt: skip
    parser.add_argument(
        "--count", type=help_text.count, default=0, metavar="N", help="with --watch: end after N answers"
    )


def repeat(answer: Callable[[], int], options: argparse.Namespace, name: str) -> int:
    """Answer every ``options.watch`` seconds, on absolute deadlines; trouble is reported once and does not end it.

    Without ``options.watch`` answer once, and let trouble pass. The exit code is that of the last answer.
    """
    if options.watch is None:
        return answer()
    code, answers = EXIT_OK, 0
    log = TroubleLog(Category(name))
    due = time.monotonic()
    while True:
        try:
            code = answer()
            log.over(SHARDS, "the shards can be read again")
        except ShardpulseError as error:
            log.fails(SHARDS, error, patience=0.0)
            code = error.exit_code
        answers += 1
        if answers == options.count:
            return code
        due = max(due + options.watch, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
