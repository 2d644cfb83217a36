"""What all forms of ``shardpulse query`` have in common."""

from __future__ import annotations

import argparse

from acquisition import help_text
from acquisition.config import Settings, endpoints
from acquisition.repetition import add_watch
from acquisition.snapshot import SnapshotReader


def add_common(parser: argparse.ArgumentParser) -> None:
    """Output, repetition, grace time and where the shards are."""
    add_watch(parser)
    parser.add_argument(
        "--grace", type=help_text.number(0, 86400), metavar="S", help="wait S seconds for late hosts ([snapshot])"
    )
    help_text.add_shards(parser)


def reader(settings: Settings, options: argparse.Namespace) -> SnapshotReader:
    """A reader as the configuration and these options say."""
    shards = endpoints.with_addresses(settings.shards, options.shards)
    grace = settings.snapshot.grace_seconds if options.grace is None else options.grace
    return SnapshotReader(endpoints.connect(shards), grace, settings.snapshot.down_after_seconds)
