"""What all forms of ``shardpulse query`` have in common: options, and answering again and again."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable

from acquisition import help_text
from acquisition.errors import EXIT_OK, ShardpulseError
from acquisition.trouble_log import SHARDS, TroubleLog


def add_common(parser: argparse.ArgumentParser) -> None:
    """Output, repetition, grace time and where the shards are."""
    parser.add_argument("--json", action="store_true", help="one JSON document; with --watch one per line")
    parser.add_argument(
        "--watch", nargs="?", type=_interval, const=1.0, metavar="S", help="repeat every S seconds (1) until Ctrl-C"
    )
    parser.add_argument("--count", type=count, default=0, metavar="N", help="with --watch: end after N answers")
    parser.add_argument("--grace", type=_seconds, metavar="S", help="wait S seconds for late hosts ([snapshot])")
    parser.add_argument("--shards", metavar="HOST:PORT,...", help="any of the shards, instead of the configured ones")
    parser.add_argument("--config", metavar="FILE", help=help_text.CONFIG_HELP)


def repeat(answer: Callable[[], int], options: argparse.Namespace, name: str) -> int:
    """Answer every ``options.watch`` seconds, on absolute deadlines; trouble is reported once and does not end it.

    The exit code is that of the last answer.
    """
    code, answers = EXIT_OK, 0
    log = TroubleLog(lambda text: print(f"shardpulse {name}: {text}", file=sys.stderr, flush=True))
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


def count(text: str) -> int:
    """A number from 0 on. Raises ArgumentTypeError or ValueError, as argparse expects."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return number


def _seconds(text: str) -> float:
    number = float(text)
    if not 0 <= number < 86400:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 86400 seconds")
    return number


def _interval(text: str) -> float:
    if _seconds(text) < 0.01:
        raise argparse.ArgumentTypeError(f"{text} is shorter than 0.01 seconds")
    return float(text)
