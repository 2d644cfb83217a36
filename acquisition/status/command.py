"""``shardpulse status``: pipeline health, and whether the books balance."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import TextIO

import msgspec
from rich.console import Console

from acquisition import help_text
from acquisition.config import endpoints, metric_registry
from acquisition.config import loader as config
from acquisition.errors import DataError, UnavailableError
from acquisition.help_text import add_watch, repeat
from acquisition.shards.topology.nodes import Members
from acquisition.status import health, text
from acquisition.status.document import document, exit_code, in_trouble, verdict_of
from acquisition.status.finding import DOWN
from acquisition.status.health import Health
from acquisition.terminal import styled

_DESCRIPTION = """\
Show pipeline health, and the fate of every sample.

The books account for all samples. They compare independent counts: samples made, as reported by each
probe, and samples applied or counted as lost by the filter. For every host, resource set (the host itself,
its processes, its VMs) and epoch (one unbroken numbering of a probe's frames)
    made = before + applied + lost + pending
must hold at all times. `before` are samples made before the filter's record began, `lost` are dropped
and counted, `pending` are in a probe's ring (the file of its recent frames) or in a stream of a shard.
Samples made by a silent probe since its last report are shown as unknown. `behind` is the age of the
oldest unread entry of a filter worker; of a replica, the bytes of its master's writes not received yet."""

_EXAMPLES = """
shardpulse status                            the pipeline now
shardpulse status --watch                    refresh every second until Ctrl-C
shardpulse status --host web-1               all counts of one host
shardpulse status --json | jq .books         made, applied, lost, pending as JSON
shardpulse status > /dev/null || alert       exit code 0: healthy, books balance
shardpulse status --json | jq -r '.findings[] | select(.kind != "note") | .text'
"""
_TOP = 20


def main(argv: list[str]) -> int:
    """Run the command; returns its exit code."""
    options = _parser().parse_args(argv)
    settings = config.load(options.config)
    shards = endpoints.with_addresses(settings.shards, options.shards)
    options.top = options.top or sys.maxsize
    cluster, names = endpoints.connect(shards), metric_registry.set_names()
    with Members(endpoints.seeds(shards), endpoints.credentials(shards), shards.timeout_seconds) as members:
        try:
            down_after = settings.snapshot.down_after_seconds
            return repeat(
                lambda: answer(health.read(cluster, members, names, down_after), names, options, sys.stdout),
                options,
                "status",
            )
        finally:
            cluster.close()


def answer(found: Health, names: Mapping[int, str], options: argparse.Namespace, out: TextIO) -> int:
    """Write the status once. Raises DataError if there is no host with the requested name, UnavailableError if the
    readable books have none."""
    verdict = verdict_of(found, options.lossless)
    chosen = text.matching(found.accounts, options.host) if options.host else in_trouble(found, options.top)
    if options.host and not chosen:
        if found.books is None or found.unread:
            raise UnavailableError(f"host {options.host}: not in the books that could be read; {_first_reason(found)}")
        raise DataError(f"unknown host {options.host}; `shardpulse query --set host` lists hosts")
    if options.json:
        json.dump(msgspec.to_builtins(document(found, names, chosen, verdict)), out)
        out.write("\n")
    else:
        console = Console(file=styled(out), highlight=False, soft_wrap=True)
        if options.watch is not None and console.is_terminal:
            console.clear()
        for line in text.lines(found, names, options.top, options.host):
            line.rstrip()
            console.print(line)
    out.flush()
    return exit_code(verdict)


def _first_reason(found: Health) -> str:
    return next((f"{row.about}: {row.text}" for row in found.findings if row.kind == DOWN), "some are not read")


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("status", _DESCRIPTION, _EXAMPLES)
    parser.add_argument("--host", metavar="NAME", help="show all counts of one host, by name or hexadecimal id")
    parser.add_argument(
        "--top",
        type=help_text.count,
        default=_TOP,
        metavar="N",
        help=f"number of findings to show; 0: all (default {_TOP})",
    )
    parser.add_argument("--lossless", action="store_true", help="exit with 76 if any sample is lost")
    add_watch(parser)
    help_text.add_shards(parser)
    return parser
