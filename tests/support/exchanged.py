"""Exchanged certificates for the running shards of ``tls_cluster``.

They are put in place, and read by shards that are ordered to.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import redis

from acquisition.certificates import files, making
from acquisition.certificates.making import Pair
from acquisition.errors import ShardError
from acquisition.shards.servers import grants
from acquisition.shards.topology import join
from experiments.processes.access import CERTIFICATE
from tests.support.tls_cluster import Secured


def home(secured: Secured, number: int) -> Path:
    """Where the files of a shard lie."""
    return secured.access.directory / f"shard-{number}"


def replace(path: Path, data: bytes) -> None:
    """As an operator does: whole or not at all."""
    part = path.with_suffix(".part")
    part.write_bytes(data)
    part.chmod(path.stat().st_mode & 0o777)
    os.replace(part, path)


def certify(secured: Secured, number: int, by: Pair, name: str, later: float = 0.0) -> Path:
    """Put another certificate for ``name`` into a shard's files, valid for 20 days from ``later`` seconds after now on;
    a copy of it beside them."""
    place = home(secured, number)
    begins = datetime.fromtimestamp(int(datetime.now(UTC).timestamp() + later), UTC)
    made = files.write(making.issue(by, [name], begins, 20), place / f"next-{os.urandom(4).hex()}", CERTIFICATE)
    for path in made:
        replace(place / path.name, path.read_bytes())
    return made[0]


def tell(secured: Secured, *words: str) -> subprocess.CompletedProcess[str]:
    """All shards read their files again, by the user who may."""
    config = secured.access.directory / "operator.toml"
    config.write_text(secured.configure(grants.OPERATOR, ""))
    command = [sys.executable, "-m", "acquisition", "shards", "certificates", "--config", str(config)]
    where = ["--addresses", str(secured.addresses[0])]
    return subprocess.run([*command, *where, *words], capture_output=True, text=True)


def is_in_sync(client: redis.Redis) -> bool:
    """Whether a replica that may be starting has what its master has."""
    with contextlib.suppress(ShardError, redis.RedisError):
        return join.in_sync(client)
    return False
