"""``shardpulse shards add|remove|balance``: growing and shrinking a cluster under load."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

from acquisition.config import endpoints
from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, ConfigError, UnavailableError, UsageError
from acquisition.link import state_directory
from acquisition.shards import local_growth, remote_growth
from acquisition.shards.launch import Shards, running
from acquisition.shards.local_growth import Growth
from acquisition.shards.migrate import Report
from acquisition.stderr import speaker


def add(options: argparse.Namespace, settings: config.Shards) -> int:
    """Start one more shard, pinned to a core of its own while there is one, and move an even part of the
    partitions to it while probes and filters go on. Nothing is lost; each partition waits for a fraction of a
    second. Interrupted, it is finished by the same command. With --addresses the servers are those that are named,
    which somebody has started: the first becomes a master, the others its replicas."""
    if options.addresses:
        return remote_growth.add(options, settings)
    if options.server:
        raise UsageError("which server is added is said with --addresses only; here one is started")

    def action(shards: Shards, report: Report) -> Growth:
        core = options.core[0] if options.core else None
        return local_growth.add(shards, report, core, options.port or 0, options.maxmemory or 0, directives(settings))

    return _run(options, settings, action)


def remove(options: argparse.Namespace, settings: config.Shards) -> int:
    """Move all partitions of one shard to the others, make them forget it, and stop it and its replicas.
    The last shard cannot be removed. Interrupted, it is finished by the same command. With --addresses servers that
    somebody else runs are not stopped, but know nobody then."""
    if options.addresses:
        return remote_growth.remove(options, settings)
    return _run(options, settings, lambda shards, report: local_growth.remove(shards, options.shard, report))


def balance(options: argparse.Namespace, settings: config.Shards) -> int:
    """Finish what an interrupted add or remove left half done; else move partitions until all shards hold
    equally many, give or take one."""
    if options.addresses:
        return remote_growth.balance(options, settings)
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
    print(done.text())
