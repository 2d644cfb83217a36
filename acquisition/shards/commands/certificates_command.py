"""``shardpulse shards certificates``: reload the certificates of running shards."""

from __future__ import annotations

import argparse
import json
import ssl
from collections.abc import Iterable, Sequence
from pathlib import Path

from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, EXIT_UNAVAILABLE, DataError, NoInputError, ShardError, UnavailableError
from acquisition.link.resp import Address, Connection, ReplyError, raise_for
from acquisition.link.trust import expired
from acquisition.link.trust.credentials import Credentials
from acquisition.shards.commands import remote_command
from acquisition.shards.topology.nodes import Members, Node

_FILES = ("tls-ca-cert-file", "tls-cert-file", "tls-key-file")


def certificates(options: argparse.Namespace, settings: config.Shards) -> int:
    """Make every shard of a cluster reload its certificate, key and trusted authorities, as the user `operator`. Open
    connections stay; new ones use the new files. A shard whose files do not match keeps the old ones and is reported.
    The command may be repeated. With --expired it also reaches shards with expired certificates: only the given
    expired certificates are accepted, and a shard that does not answer does not hold up the others."""
    addresses, user = remote_command.named(options, settings)
    with Members(addresses, user._replace(expired=_read(options.expired)), settings.timeout_seconds) as members:
        told = reread(members, settings.timeout_seconds, all_or_none=not options.expired)
        absent = members.absent
    if options.expired:
        _check(told, user, settings.timeout_seconds)
    others = [str(address) for address, is_other in told.items() if is_other]
    shown = {"shards": list(map(str, told)), "other": others, "silent": list(map(str, absent))}
    text = f"{len(told)} shards reloaded their certificates, {len(others)} of them changed"
    missed = [f"not reloaded: {reason}" for reason in absent.values()]
    print(json.dumps(shown) if options.json else "\n".join([text, *missed]))
    return EXIT_UNAVAILABLE if absent else EXIT_OK


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command beside addresses."""
    parser.add_argument(
        "--expired", metavar="FILE", nargs="+", default=[],
        help="expired certificates that shards still present, to be accepted for this command",
    )  # fmt: skip


def reread(members: Members, timeout: float, all_or_none: bool = True) -> dict[Address, bool]:
    """Let all members read their files again; returns for each whether it shows another certificate since.

    Raises UnavailableError if a member does not answer: then none has reread; unless not ``all_or_none``. Raises
    ShardError if one has no TLS, or refuses its files; earlier members have read theirs.
    """
    nodes = members.look()
    if (absent := members.absent) and all_or_none:
        raise UnavailableError(f"no shard was changed: {'; '.join(absent.values())}; start or remove it first")
    return {node.address: _tell(members, node, timeout) for node in nodes}


def _tell(members: Members, node: Node, timeout: float) -> bool:
    # a file of the same name is read again; all in one command, since a key has to match its certificate
    names = members.all(node.id, [("CONFIG", "GET", name) for name in _FILES])
    words = [word for pair in names for word in pair]
    if len(words) != 2 * len(_FILES) or b"" in words:
        raise ShardError(f"shard {node.address} has no certificate, as it does not use TLS")
    before = _shown(node.address, timeout)
    (reply,) = members.pipeline(node.id, [("CONFIG", "SET", *words)])
    if isinstance(reply, ReplyError):
        raise ShardError(f"shard {node.address} keeps its certificate: {reply}")
    raise_for(reply, node.address)
    return _shown(node.address, timeout) != before


def _check(told: Iterable[Address], user: Credentials, timeout: float) -> None:
    """Check that all of them are now trusted without an exception. Raises ShardError with those that are not."""
    problems = []
    for address in told:
        try:
            Connection(address, user, timeout).close()
        except ShardError as error:
            problems.append(str(error))
    if problems:
        raise ShardError(f"{'; '.join(problems)}. Replace the files, then repeat the command")


def _read(paths: Sequence[str]) -> tuple[bytes, ...]:
    """Certificates in files. Raises NoInputError or DataError."""
    found: tuple[bytes, ...] = ()
    for path in paths:
        try:
            found += expired.read(Path(path).read_text(encoding="ascii"))
        except OSError as error:
            raise NoInputError(f"cannot read {path}: {error.strerror}") from error
        except ValueError as error:  # UnicodeDecodeError is one
            raise DataError(f"{path} contains no certificate") from error
    return found


def _shown(address: Address, timeout: float) -> str:
    """Certificate shown to a new connection, in PEM, for comparison, without verification. Raises ShardError."""
    try:
        return ssl.get_server_certificate(address, timeout=timeout)
    except OSError as error:
        raise ShardError(f"shard {address} is unreachable: {error}") from error
