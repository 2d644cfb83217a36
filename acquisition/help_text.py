"""The common look of every command's ``--help``: description, options, examples, exit codes."""

from __future__ import annotations

import argparse
import math

from acquisition.errors import EXIT_CODES

CONFIG_HELP = "configuration file (default: $SHARDPULSE_CONFIG, /etc/shardpulse/shardpulse.toml, built-in values)"


def parser(name: str, description: str, examples: str, exit_codes: tuple[int, ...]) -> argparse.ArgumentParser:
    """An argument parser for ``shardpulse NAME`` whose help teaches: ``examples`` are lines, and
    ``exit_codes`` those that this command may end with (2 and 70 are always possible)."""
    codes = "\n".join(f"  {code:>3}  {EXIT_CODES[code]}" for code in sorted({*exit_codes, 0, 2, 70}))
    shown = "\n".join(f"  {line}" for line in examples.strip().splitlines())
    return argparse.ArgumentParser(
        prog=f"shardpulse {name}",
        description=description,
        epilog=f"examples:\n{shown}\n\nexit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_wait(parser: argparse.ArgumentParser) -> None:
    """``--wait``, the same in all commands that run until they are told to stop: ``options.wait`` in seconds."""
    parser.add_argument(
        "--wait", type=seconds, default=math.inf, metavar="S",
        help="give up when no shard has answered within S seconds of the start (default: wait until told to stop)",
    )  # fmt: skip


def seconds(text: str) -> float:
    """Seconds from 0 on, as an argument's type."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0.0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return number
