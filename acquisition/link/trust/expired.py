"""TLS connection to a shard with an expired certificate, to reload it.

Everything else is verified as usual: authority, signature, purpose and name. The certificate must also be one of
those given by the operator (``Credentials.expired``), exactly as issued: the key of an older certificate may have
been found, as nobody guards it after expiry, and its finder must not get a password.
"""

from __future__ import annotations

import socket
import ssl
from typing import Any

from acquisition.errors import ShardError
from acquisition.link.trust import admission, tls
from acquisition.link.trust.credentials import Credentials

_NOT_NAMED = "has an expired certificate that was not given with --expired: pass the one it presents"


def read(text: str) -> tuple[bytes, ...]:
    """The certificates (DER) in a file's text. Raises ValueError if there is none, or one is damaged."""
    begin, end = ssl.PEM_HEADER, ssl.PEM_FOOTER
    blocks = [part.partition(end) for part in text.split(begin)[1:]]
    if not blocks or not all(last for _, last, _ in blocks):
        raise ValueError("no certificate")
    return tuple(ssl.PEM_cert_to_DER_cert(f"{begin}{body}{end}\n") for body, _, _ in blocks)


def connect(address: tuple[str, int], credentials: Credentials, timeout: float | None) -> tls.Secured:
    """Connection after its handshake, with a shard whose certificate is one of ``credentials.expired``.

    Raises ShardError.
    """
    authority, name = credentials.authority, address[0]
    try:
        plain = socket.create_connection(address, timeout)
        admission.check(plain, credentials, address)
        made = tls.Secured(plain, authority, name, _at_any_time)
    except OSError as error:
        raise ShardError(f"shard {address} is unreachable: {error}") from error
    try:
        made.handshake()
        if made.certificate() not in credentials.expired:
            raise ShardError(f"shard {address} {_NOT_NAMED}")
    except OSError as error:
        made.close()
        raise ShardError(f"shard {address} {tls.explain(error, name, authority)}") from error
    except ShardError:
        made.close()
        raise
    return made


def _at_any_time(authority: str) -> Any:
    """As ``tls.context``, but accepts expired certificates."""
    made = tls.Context.of(authority)
    made.ignore_time()
    return made
