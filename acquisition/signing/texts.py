"""What stands in the files of secrets: one line for each, which says what it is (pure).

::

    shardpulse-master-key SECRET              of filters and archivers; the first line is the one that keys are made of
    shardpulse-host-key HOST NUMBER SECRET    of the probe of one host

SECRET is 64 hex digits, HOST the host id in 16, NUMBER that of the master in 8.
"""

from __future__ import annotations

import re

from acquisition.errors import DataError
from acquisition.wire.signature import HostKey

_MASTER, _HOST = "shardpulse-master-key", "shardpulse-host-key"
_MASTER_LINE = re.compile(rf"{_MASTER} ([0-9a-f]{{64}})")
_HOST_LINE = re.compile(rf"{_HOST} ([0-9a-f]{{16}}) ([0-9a-f]{{8}}) ([0-9a-f]{{64}})")
MOST_MASTERS = 2  #: the current one, and the one before


def masters_text(masters: list[bytes]) -> str:
    """The text of a file of masters."""
    return "".join(f"{_MASTER} {master.hex()}\n" for master in masters)


def parse_masters(text: str) -> list[bytes]:
    """The masters in a file, the current one first. Raises DataError, which never shows what stands there."""
    lines = text.splitlines()
    found = [_MASTER_LINE.fullmatch(line) for line in lines]
    if not 1 <= len(lines) <= MOST_MASTERS:
        raise DataError(f"{len(lines)} lines, where one or two masters were expected")
    if any(line.startswith(_HOST) for line in lines):
        raise DataError("a host's key, where masters were expected")
    masters = [bytes.fromhex(match[1]) for match in found if match]
    if len(masters) < len(lines):
        raise DataError(f"line {found.index(None) + 1} is no master key")
    return masters


def host_key_text(host: int, key: HostKey) -> str:
    """The text of a host's file."""
    return f"{_HOST} {host:016x} {key.number.hex()} {key.secret.hex()}\n"


def parse_host_key(text: str) -> tuple[int, HostKey]:
    """The host id and the key in a host's file. Raises DataError, which never shows what stands there."""
    if text.startswith(_MASTER):
        raise DataError("a master key, which is for filters and archivers alone, where a host's key was expected")
    match = _HOST_LINE.fullmatch(text.removesuffix("\n"))
    if match is None:
        raise DataError("no host's key")
    return int(match[1], 16), HostKey(bytes.fromhex(match[2]), bytes.fromhex(match[3]))
