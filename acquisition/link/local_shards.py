"""The shards that ``shardpulse shards up`` started on this machine, as their state file tells.

Whoever starts shards at other ports writes the file again, so everybody who was not given addresses asks it anew
whenever no shard answers. It is believed only if this user or root wrote it and nobody else may write it; that
something listens on a port proves nothing, because the port may be another user's by now.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from typing import Any, NamedTuple

from acquisition.errors import ConfigError, ShardError
from acquisition.link.resp import Address

STATE_FILE = "shards.json"  #: in the state directory; written by ``shardpulse shards up``


class Found(NamedTuple):
    """Where shards listen. ``instance`` names the cluster that one ``shards up`` made; "" for named addresses."""

    instance: str
    addresses: tuple[Address, ...]


class LocalShards(NamedTuple):
    """The shards whose state lies in ``directory``."""

    directory: str

    def look(self) -> Found:
        """Where they listen now. Raises ShardError when there are none, ConfigError when the file is not to be
        believed or is damaged."""
        path = os.path.join(self.directory, STATE_FILE)
        try:
            document = _read(self.directory, path)
            addresses = [Address(shard["host"], int(shard["port"])) for shard in document["shards"]]
            found = Found(document["instance"], tuple(addresses))
        except FileNotFoundError:
            found = Found("", ())
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"the state of the shards in {path} cannot be read: {error}") from error
        if not found.addresses:
            raise ShardError(
                "no shards run on this machine: start some with `shardpulse shards up`, or name those of another one "
                "with --shards HOST:PORT or in the [shards] table"
            )
        return found


#: Addresses that somebody named, or this machine's shards wherever they listen.
Seeds = Sequence[Address] | LocalShards


def look(seeds: Seeds) -> Found:
    """Where the shards listen now. Raises as ``LocalShards.look``."""
    return seeds.look() if isinstance(seeds, LocalShards) else Found("", tuple(seeds))


def _read(directory: str, path: str) -> Any:
    """The document; both it and its directory must be ours or root's, and writable for nobody else."""
    _check(os.stat(directory, follow_symlinks=False), directory)
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), encoding="utf-8") as file:
        _check(os.fstat(file.fileno()), path)
        return json.load(file)


def _check(status: os.stat_result, path: str) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise ConfigError(
            f"{path} belongs to another user (uid {status.st_uid}), so it is not believed: "
            "name the shards with --shards HOST:PORT or in the [shards] table"
        )
    if stat.S_IMODE(status.st_mode) & 0o022:
        raise ConfigError(f"others may write {path}, so it is not believed: chmod go-w it")
