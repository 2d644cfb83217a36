"""``shardpulse replay``: captured output or /proc files, parsed and checked.

The output is that of vmstat or pidstat.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from itertools import chain
from typing import Any, BinaryIO

from acquisition import errors, help_text
from acquisition.config import loader as config
from acquisition.config.endpoints import credentials, seeds, with_addresses
from acquisition.errors import NoInputError, UsageError
from acquisition.model.identity import host_id
from acquisition.outbox.frames.store import Outbox
from acquisition.outbox.writer import Writer
from acquisition.terminal import say
from probes.captures import replay_proc
from probes.captures.replay import (
    PIDSTAT_SET,
    VMSTAT_SET,
    Machine,
    Replayed,
    documents,
    replay_pidstat,
    replay_vmstat,
    summary,
)
from probes.captures.replay_push import Pusher
from probes.checks import build_pipeline
from probes.metrics import RESOURCE_SETS
from probes.probe_command import modules, selection
from probes.processes.discovery import Selection
from probes.tools.pidstat import PidstatParser
from probes.tools.vmstat import UNITS, VmstatParser

_DESCRIPTION = """\
Run captured output of vmstat or pidstat, or captured files of /proc, through the parser and checks
of live samples. For vmstat and pidstat, print one JSON object per entity and tick:

  {"line": 4, "time": "2026-11-21T13:00:01", "entity": "host",
   "metrics": {"cpu_user_ratio": 0.02, ...}, "invalid": {"cpu_guest_ratio": {"value": null, "code": "MISSING"}}}

line is the first line of the entity in its tick; time is null if the capture has no certain
time; entity is the host, or pid/command; value of an invalid sample is its raw value (null: none;
"Infinity"). A summary of all lines, with number and reason of each rejected one, is written to
stderr.

Limits of the sampled machine (CPU within its cores, memory within its memory) come from the
banner of pidstat or from --cores and --memory, never from this machine.

replay proc DIR reads a directory of shardpulse capture, or a handmade one: DIR/t0/proc,
DIR/t0/sys, DIR/t1/... contain files of /proc and /sys, one second apart. The output is that of
shardpulse probe --dry-run: one object per tick and resource set; --config selects processes,
metrics and checks as for the probe."""

_EXAMPLES = """\
vmstat -n -w -t 1 60 > v.txt; shardpulse replay vmstat v.txt
pidstat -h -u -r -d -w 1 60 | shardpulse replay pidstat -
shardpulse replay vmstat --unit M --memory 64G --strict v.txt    captured with -S M
shardpulse capture --seconds 5 mine; shardpulse replay proc mine
shardpulse replay pidstat --push p.txt                           send to the shards"""

_CPUS = help_text.whole(1, 65536, " CPUs")
_SUFFIXES = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def main(argv: list[str]) -> int:
    """Entry point of the sub-command; returns its exit code."""
    options = _parser().parse_args(argv)
    settings = config.load(options.config)
    config.check_metrics(
        settings,
        {name: [m.name for m in found.metrics] for name, found in RESOURCE_SETS.items()},
        options.config or "configuration",
    )
    if options.tool == "proc":
        return _replay_proc(options, settings)
    with _opened(options.file) as file:
        parser, readings = _replay(options, file, asdict(settings.checks))
        readings = _not_empty(readings, parser, options.file)
        invalid = _push(options, settings, parser, readings) if options.push else _print(readings)
    say(summary(options.tool, parser, invalid))
    return errors.EXIT_DATA if options.strict and parser.rejected.count else errors.EXIT_OK


def _replay_proc(options: argparse.Namespace, settings: config.Settings) -> int:
    """Print the readings of the sources for a captured /proc; returns the exit code."""
    if options.push:
        raise UsageError("a capture of /proc can only be printed: omit --push")
    watched = Selection.of(selection(settings.probe.processes, options.config or "configuration"))
    known = Machine(options.host, options.cores, options.memory)
    outcome = replay_proc.replay(
        options.file,
        known,
        options.interval,
        modules(settings),
        watched,
        asdict(settings.checks),
        settings.probe.vms.scope,
    )
    say(outcome.summary)
    return errors.EXIT_OK if outcome.complete or not options.strict else errors.EXIT_DATA


def _print(readings: Iterator[Replayed]) -> Counter[int]:
    """Write JSON Lines; returns the number of samples of each code other than VALID."""
    invalid: Counter[int] = Counter()
    write = sys.stdout.write
    encode = json.JSONEncoder(allow_nan=False, separators=(", ", ": ")).encode
    for replayed in readings:
        invalid.update(replayed.reading.codes.replace(b"\0", b""))
        write("".join(f"{encode(document)}\n" for document in documents(replayed)))
    sys.stdout.flush()
    return invalid


def _push(
    options: argparse.Namespace,
    settings: config.Settings,
    parser: VmstatParser | PidstatParser,
    readings: Iterator[Replayed],
) -> Counter[int]:
    """Send the readings into the shards; returns the number of samples of each code other than VALID."""
    invalid: Counter[int] = Counter()
    shards = with_addresses(settings.shards, options.shards)
    first = next(readings, None)  # the banner is known only after that
    if first is None:
        return invalid
    banner = parser.banner if isinstance(parser, PidstatParser) else None
    host = options.host or f"replay:{banner.host if banner else options.tool}"
    writer = Writer(
        host_id(host), host, seeds(shards), credentials(shards), Outbox(None), timeout=shards.timeout_seconds
    )
    try:
        pusher = Pusher(writer, host, options.tool, options.interval, options.patience, time.time())
        for replayed in chain((first,), readings):
            invalid.update(replayed.reading.codes.replace(b"\0", b""))
            pusher.push(replayed)
        pusher.finish()
    finally:
        writer.close()
    say(f"pushed {pusher.frames} frames, {pusher.samples} samples of host {host!r}")
    return invalid


def _not_empty(readings: Iterator[Replayed], parser: VmstatParser | PidstatParser, name: str) -> Iterator[Replayed]:
    """The same readings. Raises NoInputError at their end if there was not one line."""
    yield from readings
    if parser.lines == 0:
        raise NoInputError(f"{name} is empty")


def _replay(
    options: argparse.Namespace, file: BinaryIO, checks: dict[str, dict[str, Any]]
) -> tuple[VmstatParser | PidstatParser, Iterator[Replayed]]:
    machine = Machine(options.host, options.cores, options.memory)
    if options.tool == "vmstat":
        vmstat = VmstatParser(VMSTAT_SET, unit=options.unit, first_is_average=not options.no_first)
        return vmstat, replay_vmstat(file, vmstat, build_pipeline(VMSTAT_SET, checks), machine, options.interval)
    pidstat = PidstatParser(PIDSTAT_SET, cores_divided=options.divided_by)
    return pidstat, replay_pidstat(file, pidstat, build_pipeline(PIDSTAT_SET, checks), machine, options.interval)


def _opened(name: str) -> AbstractContextManager[BinaryIO]:
    if name == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except OSError as error:
        raise NoInputError(f"cannot read {name}: {error.strerror}") from error


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("replay", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("tool", choices=("vmstat", "pidstat", "proc"), help="type of the capture")
    parser.add_argument("file", metavar="FILE", help="capture file, - for standard input; for proc a directory")
    parser.add_argument(
        "--strict",
        action="store_true",
        help="exit with 65 if a line is rejected, or a file of proc is unusable",
    )
    parser.add_argument("--host", default="", help="name of the sampled host (default: from the capture)")
    parser.add_argument(
        "--cores", type=_CPUS, default=0, help="number of its CPUs (default: from the capture, else no limit)"
    )
    parser.add_argument(
        "--memory", type=_size, default=0.0, metavar="BYTES", help="its memory, such as 16G (default: as for --cores)"
    )
    parser.add_argument(
        "--interval",
        type=help_text.number(0.001, 1e6),
        default=1.0,
        help="seconds between rows or ticks without a time (default: 1)",
    )
    parser.add_argument(
        "--unit", choices=sorted(UNITS), default="K", help="vmstat: argument of its -S option (default: K)"
    )
    parser.add_argument("--no-first", action="store_true", help="vmstat ran with -y: its first line is a sample")
    parser.add_argument(
        "--divided-by", type=_CPUS, default=0, metavar="CPUS", help="pidstat ran with -I on this number of CPUs"
    )
    parser.add_argument(
        "--push",
        action="store_true",
        help="send samples to the shards, as host --host or replay:HOST, instead of printing them",
    )
    parser.add_argument(
        "--shards", metavar="ADDRESSES", help="with --push: HOST:PORT,... instead of the configured shards"
    )
    parser.add_argument(
        "--patience",
        type=help_text.number(0.001, 1e6),
        default=30.0,
        metavar="SECONDS",
        help="with --push: seconds to wait for a shard (default: 30)",
    )
    parser.add_argument("--config", metavar="FILE", help=help_text.CONFIG_HELP)
    return parser


def _size(text: str) -> float:
    number = text.rstrip("KMGT")
    suffix = text[len(number) :]
    if not (number.isascii() and number.isdigit()) or suffix not in _SUFFIXES or len(number) > 18 or not int(number):
        raise argparse.ArgumentTypeError(f"invalid size {text!r}: expected bytes or a size such as 16G")
    return float(int(number) * _SUFFIXES[suffix])
