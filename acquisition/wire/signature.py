"""Signature of a frame: proves its maker, independent of the password used.

A stream entry ``f FRAME`` becomes ``f FRAME s SIGNATURE``; readers without support ignore the second field::

    4 bytes   the number of the master secret of the key
    16 bytes  HMAC-SHA256 (RFC 2104) of all bytes of the frame as sent, cut to half (RFC 4868)

A host has its own key, derived from a master secret and its id, so it can sign for no other; a verifier has the
masters. The frame contains host, resource set, epoch, sequence number and all samples or names, so none of these can
be changed; a frame sent a second time is detected by its number (``filters.worker.states.sequence``).
``tests/acquisition/wire/test_signature.py`` contains golden bytes.

A probe that does not sign does not import this module, which loads OpenSSL.
"""

from __future__ import annotations

import hmac
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from acquisition.errors import FrameError
from acquisition.wire import frame, keys
from acquisition.wire.rejected import SIGNATURE

NUMBER_SIZE = 4
SECRET_SIZE = 32
_TAG_SIZE = 16
_HASH = "sha256"
_MASTER, _HOST = b"shardpulse master", b"shardpulse frame"  #: each derived secret has a single purpose
_HOST_ID = struct.Struct("<Q")
_HOST_AT = 16  #: in a frame: acquisition.wire.frame.HEADER_FIELDS
_MOST_HOSTS = 1 << 17  #: whose keys are cached


class HostKey(NamedTuple):
    """Signing key of a host: the ``number`` of its master, and a secret."""

    number: bytes
    secret: bytes

    def __repr__(self) -> str:
        return f"HostKey({self.number.hex()})"  # keeps the secret out of logs


class SignatureError(FrameError):
    """A frame not signed by its host; ``host`` is the claimed id."""

    def __init__(self, host: int, message: str) -> None:
        super().__init__(SIGNATURE, message)
        self.host = host


def number_of(master: bytes) -> bytes:
    """Name of a master secret, which reveals nothing about it."""
    return hmac.digest(master, _MASTER, _HASH)[:NUMBER_SIZE]


def host_key(master: bytes, host: int) -> HostKey:
    """Key of the host with this id."""
    return HostKey(number_of(master), _secret_of(master, host))


def sign(key: HostKey, data: bytes) -> bytes:
    """Signature of an encoded frame: the number of the master, and the tag."""
    return key.number + hmac.digest(key.secret, data, _HASH)[:_TAG_SIZE]


def signer(key: HostKey) -> Callable[[bytes], bytes]:
    """``sign`` for a writer, which calls it for every frame."""
    return lambda data: sign(key, data)


class Verifier:
    """Verifies frames' signatures by their hosts; any of the ``masters`` is accepted, so that they can be replaced.

    ``required``: frames without a signature are refused as well as those with a wrong one.
    """

    def __init__(self, masters: Sequence[bytes], required: bool = True) -> None:
        self._masters = {number_of(master): master for master in masters}
        self._secrets: dict[tuple[bytes, int], bytes] = {}  #: of hosts that have signed: nobody else can fill it
        self._required = required

    def check(self, data: bytes, fields: Sequence[bytes]) -> None:
        """Raise SignatureError if the frame ``data`` of a stream entry is not signed by the host named in it;
        ``fields`` are all of the entry. Data too short for a frame are left to ``acquisition.wire.frame.decode``."""
        if len(data) < frame.HEADER_SIZE:
            return
        (host,) = _HOST_ID.unpack_from(data, _HOST_AT)
        signature = fields[3] if len(fields) > 3 and fields[2] == keys.SIGNATURE_FIELD else b""
        if not signature:
            if self._required:
                raise SignatureError(host, f"unsigned frame of host {host:016x}")
            return
        number = signature[:NUMBER_SIZE]
        secret = self._secrets.get((number, host))
        if secret is None:
            self._check_first(host, number, signature, data)
        elif not hmac.compare_digest(signature, number + hmac.digest(secret, data, _HASH)[:_TAG_SIZE]):
            raise _wrong(host)

    def _check_first(self, host: int, number: bytes, signature: bytes, data: bytes) -> None:
        master = self._masters.get(number)
        if master is None:
            problem = f"frame of host {host:016x} signed with a key of another master ({number.hex()})"
            raise SignatureError(host, problem)
        key = HostKey(number, _secret_of(master, host))
        if not hmac.compare_digest(signature, sign(key, data)):
            raise _wrong(host)
        if len(self._secrets) >= _MOST_HOSTS:
            self._secrets.clear()
        self._secrets[number, host] = key.secret


def _secret_of(master: bytes, host: int) -> bytes:
    return hmac.digest(master, _HOST + _HOST_ID.pack(host), _HASH)


def _wrong(host: int) -> SignatureError:
    return SignatureError(host, f"wrong signature of a frame of host {host:016x}")
