"""``shardpulse shards certificates``: shards that run take the certificates that lie in their files now."""

from __future__ import annotations

import argparse
import json
import ssl

from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, ShardError, UnavailableError
from acquisition.link.resp import Address, ReplyError, raise_for
from acquisition.shards import remote_command
from acquisition.shards.nodes import Members

_FILES = ("tls-ca-cert-file", "tls-cert-file", "tls-key-file")


def certificates(options: argparse.Namespace, settings: config.Shards) -> int:
    """Let every shard of a cluster read its certificate, its key and the authorities that it believes again, as the
    user `operator`. Connections go on; new ones see what lies in the files now. A shard whose files do not fit each
    other keeps what it has, and is named. It may be repeated."""
    addresses, user = remote_command.named(options, settings)
    with Members(addresses, user, settings.timeout_seconds) as members:
        told = reread(members, settings.timeout_seconds)
    others = [address for address, is_other in told.items() if is_other]
    text = f"{len(told)} shards have read their certificates again, {len(others)} have another one now"
    print(json.dumps({"shards": list(told), "other": others}) if options.json else text)
    return EXIT_OK


def reread(members: Members, timeout: float) -> dict[str, bool]:
    """Let all members read their files again; answers for each whether it shows another certificate since.

    Raises UnavailableError when a member does not answer: then none was told. Raises ShardError when one has no TLS, or
    refuses its files; those before it have read theirs.
    """
    nodes = members.look()
    if members.silent:
        raise UnavailableError(f"no shard was told: {'; '.join(members.silent.values())}; start or remove it first")
    told = {}
    for node in nodes:
        # a file of the same name is read again; all in one command, since a key has to be that of its certificate
        names = members.all(node.id, [("CONFIG", "GET", name) for name in _FILES])
        words = [word for pair in names for word in pair]
        if len(words) != 2 * len(_FILES) or b"" in words:
            raise ShardError(f"shard {node.address} has no certificate: it does not speak TLS")
        before = _shown(node.address, timeout)
        (reply,) = members.pipeline(node.id, [("CONFIG", "SET", *words)])
        if isinstance(reply, ReplyError):
            raise ShardError(f"shard {node.address} keeps the certificate that it has: {reply}")
        raise_for(reply, node.address)
        told[str(node.address)] = _shown(node.address, timeout) != before
    return told


def _shown(address: Address, timeout: float) -> str:
    """The certificate that a new connection gets, in PEM; it is compared, not believed. Raises ShardError."""
    try:
        return ssl.get_server_certificate(address, timeout=timeout)
    except OSError as error:
        raise ShardError(f"shard {address} cannot be reached: {error}") from error
