"""Access control: tokens, TLS, and the rate of each client's writes.

Reading is free on loopback and needs a token and TLS elsewhere; writing always needs a token of its own. The token
is compared in constant time. Without a token, a request must name this machine by a loopback
name (Host, RFC 9110 section 7.2): otherwise a web page that resolves its own name to 127.0.0.1 could
read everything through its visitor's browser.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import os
import re
import ssl
from typing import NamedTuple

from starlette.types import Scope

from acquisition.config.serve import Serve
from acquisition.errors import ConfigError, NoInputError, ShardpulseError
from acquisition.link.trust import trusted_file
from acquisition.link.trust.credentials import WRITER_TOKEN_FILE
from filters.service.http.problem import Problem

_LEAST_TOKEN = 16  #: characters
_MAKE_TOKEN = "head -c 32 /dev/urandom | base64 > FILE; chmod 600 FILE"
#: A complete Host: parts ignored by a lenient parser, such as userinfo or text after a bracket, can forge names.
_HOST = re.compile(r"(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[0-9A-Za-z.-]+))(?::[0-9]{1,5})?")
_UNAUTHORIZED = {b"www-authenticate": b'Bearer realm="shardpulse"'}
_WRITE_KEY = "key serve.write_token_file"
_BURST_SECONDS = 10.0  #: of requests that may arrive at once
_MOST_CALLERS = 10_000  #: remembered; the one with the oldest last request is dropped first


class Access(NamedTuple):
    """Address to listen on and requirements. ``token`` is empty if reading needs none. ``write_token_file`` is read for
    each writing request, since local shards have a new token each time they are started."""

    host: str
    port: int
    token: bytes = b""
    certificate: str = ""
    key: str = ""
    write_token_file: str = ""

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        return is_loopback(self.host)


def access(settings: Serve, local: str = "") -> Access:
    """Access rules of the [serve] table; ``local``: directory of this machine's shards, whose token is the one
    for writing if none is configured. Raises ConfigError for an unsafe configuration, with the remedy, and
    NoInputError if a file cannot be read."""
    host, _, port = settings.bind.rpartition(":")
    token = _token(settings.token_file, "key serve.token_file") if settings.token_file else b""
    if settings.write_token_file and _token(settings.write_token_file, _WRITE_KEY) == token:
        raise ConfigError(
            "[serve] token_file and write_token_file contain the same token: writing requires a separate one"
        )
    writer = settings.write_token_file or (os.path.join(local, WRITER_TOKEN_FILE) if local else "")
    key = trusted_file.located(settings.tls_key, "key serve.tls_key")
    chosen = Access(host.strip("[]"), int(port), token, settings.tls_certificate, key, writer)
    if bool(chosen.certificate) != bool(chosen.key):
        raise ConfigError("[serve] tls_certificate and tls_key must be set together")
    if chosen.certificate:
        _check_certificate(chosen)
    if not chosen.loopback:
        _demand(chosen)
    return chosen


def is_loopback(host: str) -> bool:
    """Whether a name or address to bind to is this machine's loopback."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check(scope: Scope, where: Access) -> None:
    """Raise Problem (401, 421) for a request that is not permitted. The token for writing also permits reading."""
    if not where.token:
        _check_host(scope)
    elif not _sends(scope, where.token) and _refusal(scope, where):
        detail = "authentication required: send the token of [serve] token_file as Authorization: Bearer TOKEN"
        raise Problem(401, "unauthorized", detail, _UNAUTHORIZED)


def check_writer(scope: Scope, where: Access) -> None:
    """Raise Problem (401) for a request that is not permitted to write; also applies on loopback."""
    detail = _refusal(scope, where)
    if detail:
        raise Problem(401, "unauthorized", detail, _UNAUTHORIZED)


def _refusal(scope: Scope, where: Access) -> str:
    """Reason a request may not write; empty: it may."""
    make = f"create one ({_MAKE_TOKEN}) and set [serve] write_token_file"
    if not where.write_token_file:
        return f"writing requires a separate token, and none is configured: {make}"
    try:
        token = _token(where.write_token_file, _WRITE_KEY)
    except ShardpulseError as error:
        return f"writing requires a separate token ({error}): {make}"
    if _sends(scope, token):
        return ""
    return f"writing requires the token in {where.write_token_file}: Authorization: Bearer TOKEN"


def _sends(scope: Scope, token: bytes) -> bool:
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, secret = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    return scheme.lower() == b"bearer" and hmac.compare_digest(secret.strip(), token)


def _check_host(scope: Scope) -> None:
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    match = _HOST.fullmatch(hosts[0].decode("latin-1")) if len(hosts) == 1 else None
    if match is None or not is_loopback((match["address"] or match["name"]).lower()):
        detail = "without a token only requests to localhost are answered; set [serve] token_file"
        raise Problem(421, "wrong-host", detail)


def _demand(chosen: Access) -> None:
    missing = []
    if not chosen.token:
        missing.append(f"a token ({_MAKE_TOKEN}; then [serve] token_file = FILE)")
    if not chosen.certificate:
        missing.append(
            "TLS ([serve] tls_certificate and tls_key, created by: shardpulse certificates ca services --dir "
            "CA; shardpulse certificates issue NAME --ca CA --out DIR)"
        )
    if missing:
        raise ConfigError(
            f"[serve] bind = {chosen.host}:{chosen.port} is reachable from other machines and requires "
            f"{' and '.join(missing)}; or bind to 127.0.0.1"
        )


def _token(path: str, key: str) -> bytes:
    with trusted_file.opened(path, key) as file:
        token = file.readline().strip()
    if len(token) < _LEAST_TOKEN or any(not 33 <= byte <= 126 for byte in token):
        raise ConfigError(f"{key}: {path} must contain {_LEAST_TOKEN} printable characters: {_MAKE_TOKEN}")
    return token


def _check_certificate(chosen: Access) -> None:
    trusted_file.opened(chosen.key, "key serve.tls_key").close()
    try:
        open(chosen.certificate, "rb").close()
    except OSError as error:
        told = f"cannot read {chosen.certificate}: {error.strerror}"
        raise NoInputError(f"key serve.tls_certificate: {told}") from error
    try:
        tls_context(chosen)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"[serve] tls_certificate and tls_key do not match or are not PEM files: {error}") from error


def tls_context(chosen: Access) -> ssl.SSLContext:
    """TLS 1.2 or newer with the configured certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(chosen.certificate, chosen.key, password=lambda: "")
    return context


class Rates:
    """Accepts ``per_second`` requests of each caller, and a burst of ten seconds' worth, at least one."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._cost = 1.0 / per_second
        self._burst = max(self._cost, _BURST_SECONDS)
        self._full: dict[str, float] = {}  #: when a caller's bucket is full again, the newest caller last

    def take(self, caller: str, now: float) -> None:
        """Count one request at ``now`` (seconds, monotonic). Raises Problem (429) if it exceeds the rate."""
        full = max(self._full.pop(caller, now), now) + self._cost
        wait = full - now - self._burst
        self._full[caller] = full - self._cost if wait > 0.0 else full
        if len(self._full) > _MOST_CALLERS:
            del self._full[next(iter(self._full))]
        if wait > 0.0:
            seconds = math.ceil(wait)
            detail = f"{caller} exceeds [serve.limits] writes_per_second ({self._per_second:g}): retry in {seconds} s"
            raise Problem(429, "too-many-reports", detail, {b"retry-after": b"%d" % seconds})
