"""Local shards started by ``shardpulse shards up``, from their state file.

Starting shards at other ports rewrites the file, so every client that was not given addresses reads it again
whenever no shard answers. It is believed only if this user or root wrote it and nobody else may write it; that
something listens on a port proves nothing, because the port may be another user's by now.

The probe imports this module: it stays lean.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from acquisition.errors import ConfigError, ShardError
from acquisition.link.resp import Address
from acquisition.link.trust import trusted_file
from acquisition.link.trust.credentials import Credentials, local

STATE_FILE = "shards.json"  #: in the state directory; written by ``shardpulse shards up``


class Found(NamedTuple):
    """Where shards listen. ``instance`` names the cluster that one ``shards up`` made; "" for named addresses.
    ``credentials`` are those of local shards that have users, None otherwise."""

    instance: str
    addresses: tuple[Address, ...]
    credentials: Credentials | None = None


class LocalShards(NamedTuple):
    """The shards whose state lies in ``directory``."""

    directory: str

    def look(self) -> Found:
        """Where they listen now. Raises ShardError when there are none, ConfigError when the file is not to be
        believed or is damaged."""
        document = read_state(self.directory)
        if document is None:
            document = {"instance": "", "shards": []}
        try:
            addresses = [Address(shard["host"], int(shard["port"])) for shard in document["shards"]]
            credentials = local(self.directory) if document.get("secured") else None
            found = Found(document["instance"], tuple(addresses), credentials)
        except (ValueError, KeyError, TypeError) as error:
            raise damaged(self.directory, error) from error
        if not found.addresses:
            raise ShardError(
                "no shards are running on this machine: start them with `shardpulse shards up`, or give "
                "others with --shards HOST:PORT or in the [shards] table"
            )
        return found


def read_state(directory: str) -> dict[str, Any] | None:
    """The document that ``shardpulse shards up`` has left in ``directory``, or None.

    Raises ConfigError when it is not to be believed or is damaged.
    """
    try:
        document = json.loads(trusted_file.read(directory, STATE_FILE))
        if not isinstance(document, dict):
            raise ValueError("not a JSON object")
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise damaged(directory, error) from error
    return document


def damaged(directory: str, error: Exception) -> ConfigError:
    """Error to raise for a state file that makes no sense."""
    return ConfigError(f"cannot read the shards' state in {os.path.join(directory, STATE_FILE)}: {error}")


#: Addresses that somebody named, or this machine's shards wherever they listen.
Seeds = Sequence[Address] | LocalShards


def look(seeds: Seeds) -> Found:
    """Where the shards listen now. Raises as ``LocalShards.look``."""
    return seeds.look() if isinstance(seeds, LocalShards) else Found("", tuple(seeds))
