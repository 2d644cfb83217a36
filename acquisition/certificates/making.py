"""Creation of authorities and certificates, P-256 and X.509 v3 (pure).

No files are read or written, and the caller supplies the time.

An authority is for one purpose, stated in its extended key usage, which OpenSSL demands of all that it vouches
for. The nodes of a cluster are servers and clients of each other, whichever of them calls; what answers over HTTP or is
a database is a server and nothing else. Two authorities keep the certificate of a web server from taking part in the
cluster bus, which believes any certificate of its authority (Redis, "Cluster bus over TLS").
"""

from __future__ import annotations

import ipaddress
import os
import re
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from acquisition.errors import DataError, UsageError

SHARDS, SERVICES = "shards", "services"
PURPOSES = {
    SHARDS: (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH),
    SERVICES: (ExtendedKeyUsageOID.SERVER_AUTH,),
}
_EARLIER = timedelta(hours=1)  #: that a certificate begins before it is made: clocks differ
_LONGEST_COMMON_NAME = 64  #: X.520; clients look at the alternative names only
_HOSTNAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.I)


class Pair(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def authority(purpose: str, now: datetime, days: int) -> Pair:
    """An authority of its own for one of PURPOSES, which may make no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _named(f"shardpulse {purpose} authority {os.urandom(4).hex()}")
    made = (
        _builder(subject, subject, key, now, now + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage(PURPOSES[purpose]), critical=False)
    )
    return Pair(made.sign(key, hashes.SHA256()), key)


def issue(by: Pair, names: list[str], now: datetime, days: int) -> Pair:
    """A certificate for the purpose of ``by`` and for hosts with these ``names``, or addresses.

    Raises UsageError for an invalid name and for a life beyond the authority's, DataError where ``by`` is no
    authority of ``authority``.
    """
    ends, last = now + timedelta(days=days), by.certificate.not_valid_after_utc
    usage = _authority_usage(by.certificate)
    if ends > last:
        most = max((last - now).days, 0)
        raise UsageError(
            f"validity of {days} days exceeds that of the authority, which expires at {moment(last)}, in {most} days"
        )
    key = ec.generate_private_key(ec.SECP256R1())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(by.key.public_key())
    made = (
        _builder(_named(names[0][:_LONGEST_COMMON_NAME]), by.certificate.subject, key, now, ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(usage, critical=False)
        .add_extension(issuer, critical=False)
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in names]), critical=False)
    )
    return Pair(made.sign(by.key, hashes.SHA256()), key)


def names_of(certificate: x509.Certificate) -> list[str]:
    """The names and addresses that a certificate is for; none of an authority."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found if isinstance(name, x509.DNSName | x509.IPAddress)]


def moment(when: datetime) -> str:
    """A time as people read it."""
    return when.strftime("%Y-%m-%d %H:%M UTC")


def _authority_usage(certificate: x509.Certificate) -> x509.ExtendedKeyUsage:
    try:
        basic = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        if basic.ca:
            return certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except (x509.ExtensionNotFound, ValueError):
        pass
    raise DataError("the certificate was not issued by an authority of `shardpulse certificates ca`")


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, ends: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(ends)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        if _HOSTNAME.fullmatch(name):
            return x509.DNSName(name)
    raise UsageError(f"{name!r} is neither a host name nor an IP address")
