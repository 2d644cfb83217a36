"""``shardpulse shards add|remove|balance``: growing and shrinking the cluster of this machine under load."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from acquisition.config import endpoints
from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, ConfigError, UnavailableError
from acquisition.link import state_directory
from acquisition.shards import local_growth, remote_command
from acquisition.shards.launch import Shards, running
from acquisition.shards.local_growth import Growth
from acquisition.shards.migrate import Report
from acquisition.stderr import speaker


def add(options: argparse.Namespace, settings: config.Shards) -> int:
    """Start one more shard, pinned to a core of its own while there is one, and move an even part of the
    partitions to it while probes and filters go on. Nothing is lost; each partition waits for a fraction of a
    second. Interrupted, it is finished by the same command."""

    def action(shards: Shards, report: Report) -> Growth:
        core = options.core[0] if options.core else None
        return local_growth.add(shards, report, core, options.port or 0, options.maxmemory or 0, directives(settings))

    return _run(options, settings, action)


def remove(options: argparse.Namespace, settings: config.Shards) -> int:
    """Move all partitions of one shard to the others, make them forget it, and stop it and its replicas.
    The last shard cannot be removed. Interrupted, it is finished by the same command."""
    return _run(options, settings, lambda shards, report: local_growth.remove(shards, options.shard, report))


def balance(options: argparse.Namespace, settings: config.Shards) -> int:
    """Finish what an interrupted add or remove left half done; else move partitions until all shards hold
    equally many, give or take one."""
    if options.addresses:
        return remote_command.balance(options, settings)
    return _run(options, settings, local_growth.balance)


def directives(settings: config.Shards) -> dict[str, str]:
    """What the configuration adds to that of each redis-server.

    Raises ConfigError when shards would wait for more replicas than they get.
    """
    least = settings.min_replicas_to_write
    if least > settings.replicas:
        raise ConfigError(
            f"shards.min_replicas_to_write is {least} but shards.replicas only {settings.replicas}: "
            "the shards would never take a frame"
        )
    return {"min-replicas-to-write": str(least)} if least else {}


def _run(options: argparse.Namespace, settings: config.Shards, action: Callable[[Shards, Report], Growth]) -> int:
    directory = endpoints.directory(settings)
    if running(directory) is None:
        raise UnavailableError(f"no shards are running in {directory}: `shardpulse shards up` starts them")
    with state_directory.locked(directory):
        shards = _running(directory)
        done = action(shards, speaker("shards"))
    _print(done, shards, options.json)
    return EXIT_OK


def _running(directory: Path) -> Shards:
    """Read again under the lock: the command before us may have just changed it."""
    shards = running(directory)
    if shards is None:
        raise UnavailableError(f"no shards are running in {directory}: `shardpulse shards up` starts them")
    return shards


def _print(done: Growth, shards: Shards, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**done._asdict(), "shards": [str(address) for address in shards.addresses]}))
        return
    what = {"add": f"added shard {done.shard}", "remove": f"removed shard {done.shard}", "balance": "balanced"}
    print(
        f"{what[done.action]}: {done.partitions} partitions, {done.keys} keys, {done.bytes / 2**20:.1f} MiB moved in "
        f"{done.seconds:.1f} s; a partition waited {1000 * done.longest_hold_seconds:.0f} ms at most"
    )
