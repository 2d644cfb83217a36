"""Local shards started by ``shardpulse shards up``, from their state file.

Starting shards at other ports rewrites the file, so every client without configured addresses reads it again
whenever no shard answers. It is trusted only if this user or root wrote it and nobody else may write it; a listening
port proves nothing, because it may belong to another user by now.

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
    """Addresses of shards. ``instance`` names the cluster made by one ``shards up``; "" for configured addresses.
    ``credentials`` are those of local shards with users, None otherwise."""

    instance: str
    addresses: tuple[Address, ...]
    credentials: Credentials | None = None


class LocalShards(NamedTuple):
    """Shards with their state in ``directory``."""

    directory: str

    def look(self) -> Found:
        """Their current addresses. Raises ShardError if there are none, ConfigError if the file is not trusted
        or is damaged."""
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
    """Document written by ``shardpulse shards up`` in ``directory``, or None.

    Raises ConfigError if it is not trusted or is damaged.
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
    """Error to raise for an invalid state file."""
    return ConfigError(f"cannot read the shards' state in {os.path.join(directory, STATE_FILE)}: {error}")


#: Configured addresses, or this machine's shards at their current addresses.
Seeds = Sequence[Address] | LocalShards


def look(seeds: Seeds) -> Found:
    """Current addresses of the shards. Raises as ``LocalShards.look``."""
    return seeds.look() if isinstance(seeds, LocalShards) else Found("", tuple(seeds))
