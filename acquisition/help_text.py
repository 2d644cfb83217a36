"""Parts of commands: the look of ``--help``, arguments, ``--watch``."""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import time
from collections.abc import Callable
from typing import NoReturn

from acquisition import log
from acquisition.errors import COMMANDS, EXIT_CODES, EXIT_OK, ShardpulseError
from acquisition.log import SHARDS, Category, TroubleLog
from acquisition.terminal import ERROR, say

CONFIG_HELP = "configuration file (default: $SHARDPULSE_CONFIG, /etc/shardpulse/shardpulse.toml, built-in values)"


class _Parser(argparse.ArgumentParser):
    """Parser that prints errors as lines, as all other errors: an argument may contain any character."""

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the program."""
        if message:
            say(message.rstrip("\n"), ERROR)
        sys.exit(status)


def parser(name: str, description: str, examples: str, notes: str = "", prog: str = "") -> argparse.ArgumentParser:
    """Argument parser for ``shardpulse NAME``, or ``prog``, with help that teaches: ``examples`` are lines, exit
    codes are those of ``acquisition.errors``, followed by ``notes``."""
    own = COMMANDS[name]
    codes = "\n".join(f"  {code:>3}  {EXIT_CODES[code]}" for code in sorted({*own, 0, 2, 70}))
    also = "".join(f"\n{code:>4} also: {text}" for code, text in own.items() if text)
    shown = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return _Parser(
        prog=prog or f"shardpulse {name}",
        description=description,
        epilog=f"examples:\n{shown}\n\nexit codes:\n{codes}{also}{notes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_shards(parser: argparse.ArgumentParser) -> None:
    """``--shards`` and ``--config``: location of the shards."""
    parser.add_argument(
        "--shards", metavar="HOST:PORT,...", help="address of any shard, instead of the configured ones"
    )
    parser.add_argument("--config", metavar="FILE", help=CONFIG_HELP)


def add_wait(parser: argparse.ArgumentParser) -> None:
    """``--wait``, the same in all long-running commands: ``options.wait`` in seconds."""
    parser.add_argument(
        "--wait", type=seconds, default=math.inf, metavar="S",
        help="exit if no shard answers within S seconds of the start (default: wait forever)",
    )  # fmt: skip


def add_seconds(parser: argparse.ArgumentParser) -> None:
    """``--seconds``, the same in all long-running commands; 0.0 for no end."""
    parser.add_argument(
        "--seconds", type=number(0.001, 1e9), default=0.0, metavar="S", help="stop after S seconds (default: never)"
    )


def add_log(parser: argparse.ArgumentParser) -> None:
    """``--log``, the same in all long-running commands; ``options.log`` is "" if omitted."""
    parser.add_argument(
        "--log", type=_levels, default="", metavar="LEVELS",
        help="comma-separated list of LEVEL or CATEGORY=LEVEL, overrides [log] levels. Levels: "
            f"{', '.join(log.LEVELS)}; categories: {', '.join(log.CATEGORIES)}",
    )  # fmt: skip


def _levels(text: str) -> str:
    try:
        log.levels(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def add_directory(parser: argparse.ArgumentParser) -> None:
    """``--dir``: state directory of the local shards; None for the configured one."""
    parser.add_argument(
        "--dir", metavar="DIR", help="state directory of the local shards (default: [shards] directory)"
    )


def add_shard_count(parser: argparse.ArgumentParser, flag: str) -> None:
    """Number of shards to start; 0 for one per core."""
    parser.add_argument(
        flag, type=whole(1, 65535), default=0, metavar="N", help="number of shards to start (default: one per core)"
    )


def number(low: float, high: float, unit: str = " seconds") -> Callable[[str], float]:
    """Type of an argument: a finite number from ``low`` to ``high``."""

    def convert(text: str) -> float:
        with contextlib.suppress(ValueError):
            if low <= float(text) <= high and math.isfinite(float(text)):
                return float(text)
        raise argparse.ArgumentTypeError(f"{text!r} is not in the range {low:g} to {high:g}{unit}")

    return convert


def whole(low: int, high: int, unit: str = "") -> Callable[[str], int]:
    """Type of an argument: a whole number from ``low`` to ``high``."""

    def convert(text: str) -> int:
        if not (text.isascii() and text.isdigit() and len(text) < 19 and low <= int(text) <= high):
            raise argparse.ArgumentTypeError(f"{text!r} is not in the range {low} to {high}{unit}")
        return int(text)

    return convert


count = whole(0, 1_000_000)
seconds = number(0.0, 1e6)


def add_watch(parser: argparse.ArgumentParser) -> None:
    """``--json``, ``--watch`` and ``--count``, for ``repeat``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document; with --watch one per line")
    parser.add_argument(
        "--watch", nargs="?", type=number(0.01, 86400), const=1.0, metavar="S",
        help="repeat every S seconds (1) until Ctrl-C",
    )  # fmt: skip
    parser.add_argument("--count", type=count, default=0, metavar="N", help="with --watch: exit after N outputs")


def repeat(answer: Callable[[], int], options: argparse.Namespace, name: str) -> int:
    """Answer every ``options.watch`` seconds, on absolute deadlines; an error is reported once and does not end it.

    Without ``options.watch``, answer once and let errors propagate. The exit code is that of the last answer.
    """
    if options.watch is None:
        return answer()
    code, answers = EXIT_OK, 0
    log = TroubleLog(Category(name))
    due = time.monotonic()
    while True:
        try:
            code = answer()
            log.over(SHARDS, "shards readable again")
        except ShardpulseError as error:
            log.fails(SHARDS, error, patience=0.0)
            code = error.exit_code
        answers += 1
        if answers == options.count:
            return code
        due = max(due + options.watch, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
