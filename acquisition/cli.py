"""Entry point of ``shardpulse``: sub-commands and exit codes of errors.

Sub-commands are found through entry points.

A sub-command is a function ``main(argv) -> exit code`` registered in the entry point
group ``shardpulse.commands``. It is imported only when it is called, so this package
imports none of its siblings and one command does not pay for another.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from acquisition import __version__, extras
from acquisition.errors import (
    EXIT_CODES,
    EXIT_FAILURE,
    EXIT_INTERNAL,
    EXIT_INTERRUPTED,
    EXIT_NO_INPUT,
    EXIT_OK,
    ShardpulseError,
    UsageError,
)
from acquisition.private_files import private
from acquisition.signals import raising
from acquisition.supervision import name_process
from acquisition.terminal import ERROR, on_terminals, say

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "shardpulse.commands"
DEBUG = "SHARDPULSE_DEBUG"

Command = Callable[[list[str]], int]

#: Summary of each command; commands registered by other packages are listed without one.
SUMMARIES = {
    "shards": "start, stop and show local shards",
    "probe": "sample this host and send its frames to the shards",
    "filter": "check, smooth and store the probes' samples",
    "status": "show pipeline health: shards, filter workers, books",
    "hosts": "list hosts, including expired ones, and forget hosts",
    "query": "print a snapshot of the smoothed state",
    "top": "show hosts by heat, and their VMs, live in a terminal",
    "metrics": "print samples and pipeline health for Prometheus",
    "serve": "serve snapshots, hot hosts, moves and a live stream over HTTP",
    "archive": "store rollups, invalid samples and events in SQL",
    "replay": "run captured vmstat or pidstat output, or /proc files, through parser and checks",
    "capture": "copy the files that the probe reads, for a bug report; no secrets",
    "certificates": "create authorities and certificates for shards and services",
    "keys": "create the secrets that sign frames",
    "config": "print the configuration or validate a file",
}

USAGE = """\
usage: shardpulse COMMAND [OPTIONS]

Provides checked, smoothed samples of hosts, processes and virtual machines,
about one second old, for schedulers that migrate virtual machines.
"""

EXAMPLES = """\
examples:
  shardpulse shards up              one Redis shard per core of this machine
  shardpulse probe &                sample this host every second
  shardpulse filter &               smooth incoming samples
  shardpulse query                  the newest coherent snapshot, as a table
  shardpulse config > my.toml       all settings with defaults and meanings
  shardpulse COMMAND --help         options and examples of a command
"""


def main(argv: list[str] | None = None) -> int:
    """Run one command; returns its exit code (acquisition.errors.EXIT_CODES)."""
    arguments = sys.argv[1:] if argv is None else argv
    try:
        if argv is None and arguments:
            name_process(arguments[0], arguments[1:])
        with private(), on_terminals(), raising((signal.SIGINT,), lambda _: KeyboardInterrupt()):
            code = _dispatch(arguments)
        sys.stdout.flush()
        return code
    except ShardpulseError as error:
        return _report(str(error), error.exit_code)
    except BrokenPipeError:
        # the reader (head, a pager) is done; Python would complain when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return _unexpected(error)


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        sys.stdout.write(_help())
        return EXIT_OK
    name, rest = argv[0], argv[1:]
    if name in ("-V", "--version"):
        print(_version())
        return EXIT_OK
    try:
        return _load(name)(rest)
    except ModuleNotFoundError as error:
        explained = extras.missing(name, error)
        if explained is None or DEBUG in os.environ:
            raise
        raise explained from error


def _version() -> str:
    """The version, with the commit if known."""
    from acquisition.commit import commit

    known = commit()
    return f"shardpulse {__version__} ({known})" if known else f"shardpulse {__version__}"


def commands() -> dict[str, EntryPoint]:
    """The registered commands by name; none is imported."""
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group=GROUP)}
    order = {name: place for place, name in enumerate(SUMMARIES)}
    return dict(sorted(found.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))


def _load(name: str) -> Command:
    known = commands()
    if name not in known:
        from difflib import get_close_matches

        if name.startswith("-"):
            raise UsageError(f"unknown option {name}: options follow the command; see `shardpulse --help`")
        near = get_close_matches(name, known, 1)
        hint = f"did you mean {near[0]}?" if near else f"commands are {', '.join(known)}"
        raise UsageError(f"unknown command {name}; {hint}")
    command: Command = known[name].load()
    return command


def _help() -> str:
    known = commands()
    width = max(map(len, known), default=0)
    listed = "".join(f"  {name:<{width}}  {SUMMARIES.get(name, '')}".rstrip() + "\n" for name in known)
    codes = "".join(f"  {code:>3}  {meaning}\n" for code, meaning in EXIT_CODES.items())
    options = "options:\n  -h, --help     show this help\n  -V, --version  show version and commit\n"
    settings = (
        "environment:\n  SHARDPULSE_CONFIG        configuration file, unless --config is given\n  "
        f"SHARDPULSE_REDIS_SERVER  server binary for shards (Redis, Valkey)\n  {DEBUG}         any value: print "
        "tracebacks of internal errors\n"
    )
    parts = (USAGE, f"commands:\n{listed}", options, EXAMPLES, settings, f"exit codes:\n{codes}")
    return "\n".join(parts)


def output_failed(error: OSError) -> bool:
    """Whether ``error`` means that standard output cannot be written: the device is full, or the terminal is gone.

    If so, later output is discarded, because Python would complain again when it flushes at exit.
    """
    failed = error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    if error.errno == errno.EIO:  # about the output only if its terminal is gone, else about an input
        try:
            os.write(sys.stdout.fileno(), b"")
        except OSError:
            failed = True
    if failed:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failed


def _report(message: str, code: int) -> int:
    say(f"shardpulse: error: {message}", ERROR)
    return code


def _unexpected(error: Exception) -> int:
    if os.environ.get(DEBUG):
        import traceback

        say(traceback.format_exc(), ERROR)
    if isinstance(error, OSError) and error.filename is None:
        if output_failed(error):
            return _report(f"cannot write output: {error.strerror}", EXIT_FAILURE)
        if error.errno == errno.EIO:
            return _report(f"cannot read input: {error.strerror}", EXIT_NO_INPUT)
    name = type(error).__name__
    return _report(f"internal error (bug): {name}: {error}; set {DEBUG}=1 for a traceback", EXIT_INTERNAL)


if __name__ == "__main__":
    sys.exit(main())
