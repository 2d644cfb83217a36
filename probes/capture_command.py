"""``shardpulse capture``: what this machine prints, for a bug report."""

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
Copy what the probe reads on this machine into a directory, once a second: files of /proc and /sys
with CPU, memory, network, processes and virtual machines. shardpulse replay proc DIR then prints
what the probe makes of them, here or on any other machine.

Nothing is copied that is not on a list. Of the command lines of qemu only the options that say
what a VM is are kept (name, uuid, CPUs, memory); every other word becomes … Arguments of other
processes and all environments are left out. --hash-names replaces the names of the host, of its
VMs and of its processes by hashes. Files are readable by this user only. As root, more is read:
how much processes of other users read and write."""

_EXAMPLES = """\
shardpulse capture mine                            six ticks in five seconds
shardpulse capture --seconds 60 --hash-names mine
shardpulse replay proc mine                        what the probe makes of it
tar czf mine.tar.gz mine                           to attach to a report, after a look into it"""


def main(argv: list[str]) -> int:
    """Entry point of the sub-command; its exit code. Raises CannotCreateError, UsageError."""
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
        raise UsageError(f"{directory} is not empty: name a new directory")
    if os.stat(directory).st_uid != os.geteuid():
        raise UsageError(f"{directory} is another user's: name a new directory")


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
        Path(directory, FACTS).write_text(json.dumps(facts, indent=1) + "\n")  # whatever comes next, this much is whole
        say(_described(name, found))
    say(f"{directory} is complete; shardpulse replay proc {directory} prints what the probe makes of it")


def _described(name: str, found: Captured) -> str:
    refused = f"; files that this user may not read: {found.refused}" if found.refused else ""
    return f"{name}: {len(found.contents)} files, {found.processes} processes, {found.vms} VMs{refused}"


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("capture", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("directory", metavar="DIR", help="a new or empty directory")
    parser.add_argument(
        "--seconds", type=help_text.whole(1, 86400), default=5, metavar="S", help="a tick a second (default: 5)"
    )
    parser.add_argument(
        "--hash-names", action="store_true", help="hashes in place of the names of the host, of VMs and of processes"
    )
    return parser
