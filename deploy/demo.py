"""Demo of the product on this machine: shards, probe, filter and live view.

Started by ``deploy/demo``, which prepares the environment. Everything is in a directory
of this demo and on free ports, so several demos run side by side; nothing
remains at the end: no process, socket, file or shared memory.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import math
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from demo_history import History
from demo_view import HOST_METRICS, plain_lines, render
from pipeline import Pipeline
from report import document, failures, freshness_text, loss_line, shard_lines, summary, view_books
from rich.console import Console, RenderableType
from rich.live import Live
from stop_signals import StopSignals
from usage import whole_name
from workspace import workspace

from acquisition import help_text, terminal
from acquisition.cli import output_failed
from acquisition.errors import EXIT_FAILURE, EXIT_OK, ShardpulseError
from acquisition.private_files import private
from acquisition.shards.servers import bus, machine
from acquisition.shards.servers.launch import start_shards
from acquisition.shards.servers.redis_binary import find
from acquisition.supervision import name_process
from probes.sampling import native

_DESCRIPTION = """\
Start one Redis shard per core, a probe of this host, the filter, an archive and a live view, and
stop them all at the end: after --seconds, on Ctrl-C or on SIGTERM.

The view shows host metrics and the busiest processes, raw beside smoothed, with validity
and age; each shard's core, load and memory; and the books: samples lost, which should be 0.
In a terminal it redraws; piped it prints lines. Exit code 1 says that something did not work (a
part that was stuck, samples lost or pending, no sample at all) or that the output cannot be written."""

_EXAMPLES = """
deploy/demo                              until Ctrl-C
deploy/demo --seconds 30 --json          one JSON document with what was measured
deploy/demo --source procfs              the cheapest source in place of vmstat and pidstat
deploy/demo --shards 3 --interval 0.5    three shards, two ticks per second
"""

#: Debian packages that add to the demo, by the command they provide.
_BETTER = {"vmstat": "procps", "pidstat": "sysstat"}
_HELD = 20
_FIXED_LINES = 12  #: of the view, whatever its contents
_START_PATIENCE = 5.0  #: for the first sample, besides an interval
_BOOKS_SECONDS = 0.2  #: between readings of the books: a loss is repaired within seconds
_START_SECONDS = 0.05  #: between checks until there is something to show

Screen = Callable[[Pipeline], None]


def main() -> int:
    """Run the demo; returns the exit code."""
    options = _arguments()
    name_process("demo", sys.argv[1:])
    stop = StopSignals()
    try:
        with private():
            return _demonstrate(options, stop)
    except ShardpulseError as error:
        say(f"error: {error}")
        return error.exit_code
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as error:
        if not output_failed(error):
            raise
        say(f"error: cannot write output: {error.strerror}")
        return EXIT_FAILURE


class Voice:
    """Progress messages on stderr, never in the output.

    While a screen is shown, messages wait until it is closed.
    """

    def __init__(self) -> None:
        self._held: deque[str] | None = None

    def __call__(self, text: str) -> None:
        """Print ``text``, or keep it for later."""
        if self._held is not None:
            self._held.append(text)
            return
        terminal.say(f"shardpulse demo: {text}")

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep messages until the end of this context."""
        self._held = deque(maxlen=_HELD)
        try:
            yield
        finally:
            held, self._held = self._held, None
            for text in held:
                self(text)


say = Voice()


def _demonstrate(options: argparse.Namespace, stop: StopSignals) -> int:
    machine.check_count(options.shards, len(machine.cores()))
    redis = find()
    tools = options.source == "tools"
    if tools:
        _name_what_would_be_better()
    with (
        workspace() as directory,
        start_shards(options.shards, directory / "shards", redis=redis, secured=True) as shards,
    ):
        say(f"{len(shards.shards)} shards run, {redis.name} ({redis.source})")
        if shards.bus_lack:
            say(bus.open_because(shards.bus_lack))
        with Pipeline(shards, directory, options.interval, tools, say, options.archive) as pipeline:
            say(f"the filter computes with the {pipeline.step.text}")
            say(f"the probes compute with the {native.chosen().text}")
            _watch(pipeline, options, stop)
            pipeline.settle()
            result, failed = document(pipeline), failures(pipeline)
    print(json.dumps(result, indent=2) if options.json else summary(result), flush=True)
    if stop.came and not result["samples_in"] and result["seconds"] < _START_PATIENCE + options.interval:
        return EXIT_OK  # stopped before there was any data
    for failure in failed:
        say(f"error: {failure}")
    return EXIT_FAILURE if failed else EXIT_OK


def _watch(pipeline: Pipeline, options: argparse.Namespace, stop: StopSignals) -> None:
    """Show the contents of the shards until the time is over."""
    end = time.monotonic() + (options.seconds or math.inf)
    due = time.monotonic()
    with _screen(options.json) as show:
        while not stop.wait_until(min(due, end, time.monotonic() + _BOOKS_SECONDS)) and time.monotonic() < end:
            if time.monotonic() < due:
                pipeline.look_at_books()
                continue
            pipeline.look()
            if pipeline.has_values:
                if pipeline.first_value_seconds is None:
                    pipeline.note_first_value(_since_start())
                    say(f"first smoothed value {pipeline.first_value_seconds:.1f} s after the start of this command")
                show(pipeline)
            due = max(due + (options.interval if pipeline.has_values else _START_SECONDS), time.monotonic())


@contextlib.contextmanager
def _screen(quiet: bool) -> Iterator[Screen]:
    """Target of the view: none, a terminal that is redrawn, or lines in a pipe."""
    if quiet:
        yield lambda _: None
    elif not sys.stdout.isatty():
        yield _print_lines
    else:
        history, console = History(), Console()
        with say.held(), Live(console=console, auto_refresh=False, screen=True) as live:

            def show(pipeline: Pipeline) -> None:
                if not console.is_terminal:  # the terminal is gone: rich would stop drawing without an error
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                live.update(_picture(pipeline, history, console.size.height), refresh=True)

            yield show


def _print_lines(pipeline: Pipeline) -> None:
    assert pipeline.snapshot is not None
    print("\n".join(plain_lines(pipeline.snapshot, shard_lines(pipeline), view_books(pipeline))), flush=True)
    print(loss_line(pipeline), flush=True)


def _picture(pipeline: Pipeline, history: History, height: int) -> RenderableType:
    """The view, with as many metrics and processes as fit in ``height`` lines."""
    assert pipeline.snapshot is not None
    fresh = pipeline.freshness()
    note = f"{freshness_text(fresh)} · {pipeline.seconds:.0f} s · Ctrl-C stops everything\n{loss_line(pipeline)}"
    shards = shard_lines(pipeline)
    room = height - _FIXED_LINES - len(shards) - note.count("\n")
    metrics = HOST_METRICS[: max(3, room * 3 // 5)]
    busiest = max(2, min(20, room - len(metrics)))
    return render(pipeline.snapshot, shards, view_books(pipeline), history, busiest, note, metrics, whole_name)


def _name_what_would_be_better() -> None:
    missing = {tool: package for tool, package in _BETTER.items() if shutil.which(tool) is None}
    if missing:
        say(
            f"{' and '.join(missing)} not found, /proc is read in place: install {' '.join(missing.values())}"
            f" (Debian, Ubuntu: apt install {' '.join(missing.values())}) to see those sources as well"
        )


def _since_start() -> float:
    """Seconds since this process started, as the shell script ``deploy/demo`` (proc(5), field 22)."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK")


def _arguments() -> argparse.Namespace:
    parser = help_text.parser("demo", _DESCRIPTION, _EXAMPLES, prog="deploy/demo")
    help_text.add_seconds(parser)
    parser.add_argument("--json", action="store_true", help="no view; print one JSON document at the end")
    help_text.add_shard_count(parser, "--shards")
    parser.add_argument(
        "--interval", type=help_text.number(0.01, 3600), default=1.0, metavar="S", help="seconds per tick (default 1)"
    )
    parser.add_argument(
        "--source",
        choices=("tools", "procfs"),
        default="tools",
        help="tools: vmstat and pidstat where they are installed (default); procfs: /proc directly, which is cheaper",
    )
    parser.add_argument(
        "--archive",
        metavar="PATH|postgresql://…",
        help="the database that keeps invalid samples and rollups (default: a file of SQLite that goes with the demo)",
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
