"""``shardpulse capture``: output of this machine's tools, for a bug report."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import socket
import time
from pathlib import Path

from acquisition import __version__, help_text
from acquisition.errors import EXIT_OK, CannotCreateError, UsageError
from acquisition.terminal import say
from probes.captures.capture import Captured, Rename, Tick, hasher
from probes.captures.replay_proc import FACTS, place

_DESCRIPTION = """\
Copy the files that the probe reads on this machine into a directory, once a second: files of /proc
and /sys with CPU, memory, network, processes and virtual machines. shardpulse replay proc DIR then
prints the resulting samples, here or on any other machine.

Only listed files are copied. Of qemu command lines only the options that describe a VM are kept
(name, uuid, CPUs, memory); every other word becomes … Arguments of other processes and all
environments are omitted. --hash-names replaces the names of the host, its VMs and its processes
by hashes. Files are readable only by this user. Root also captures the disk I/O of other users'
processes."""

_EXAMPLES = """\
shardpulse capture mine                            six ticks in five seconds
shardpulse capture --seconds 60 --hash-names mine
shardpulse replay proc mine                        print the resulting samples
tar czf mine.tar.gz mine                           to attach to a report, after a review"""


def main(argv: list[str]) -> int:
    """Entry point of the sub-command; returns its exit code. Raises CannotCreateError, UsageError."""
    options = _parser().parse_args(argv)
    rename = hasher(secrets.token_bytes(16)) if options.hash_names else None
    try:
        _prepare(options.directory)
        _capture(options.directory, options.seconds, rename)
    except OSError as error:
        raise CannotCreateError(f"{error.filename or options.directory}: {error.strerror}") from error
    return EXIT_OK


def _prepare(directory: str) -> None:
    os.makedirs(directory, exist_ok=True)
    if os.listdir(directory):
        raise UsageError(f"{directory} is not empty; give a new directory")
    if os.stat(directory).st_uid != os.geteuid():
        raise UsageError(f"{directory} belongs to another user; give a new directory")


def _capture(directory: str, seconds: int, rename: Rename | None) -> None:
    host = socket.gethostname()
    times: dict[str, tuple[float, float]] = {}
    facts = {
        "host": rename(host) if rename else host,
        "hertz": os.sysconf("SC_CLK_TCK"),
        "page_size": os.sysconf("SC_PAGE_SIZE"),
        "kernel": os.uname().release,
        "shardpulse": __version__,
        "times": times,
    }
    start = time.monotonic()
    for number in range(seconds + 1):
        time.sleep(max(0.0, start + number - time.monotonic()))
        name = f"t{number}"
        wall, monotonic = time.time(), time.monotonic()
        found = Tick(rename).read()
        for path, content in found.contents.items():
            place(os.path.join(directory, name, path), content)
        times[name] = (wall, monotonic)
        Path(directory, FACTS).write_text(json.dumps(facts, indent=1) + "\n")  # whatever follows, this much is complete
        say(_described(name, found))
    say(f"{directory} is complete; shardpulse replay proc {directory} prints print the resulting samples")


def _described(name: str, found: Captured) -> str:
    refused = f"; files not readable by this user: {found.refused}" if found.refused else ""
    return f"{name}: {len(found.contents)} files, {found.processes} processes, {found.vms} VMs{refused}"


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("capture", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("directory", metavar="DIR", help="new or empty directory")
    parser.add_argument(
        "--seconds",
        type=help_text.whole(1, 86400),
        default=5,
        metavar="S",
        help="duration, with one tick per second (default: 5)",
    )
    parser.add_argument(
        "--hash-names", action="store_true", help="replace names of the host, VMs and processes by hashes"
    )
    return parser
