"""Creation of authorities and certificates, P-256 and X.509 v3 (pure).

No files are read or written, and the caller supplies the time.

An authority has one purpose, stated in its extended key usage, enforced by OpenSSL for all certificates it issues.
The nodes of a cluster are servers and clients of each other, depending on which one connects; HTTP servers and
databases are servers only. Separate authorities keep the certificate of a web server out of the cluster bus, which
trusts any certificate of its authority (Redis, "Cluster bus over TLS").
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
_EARLIER = timedelta(hours=1)  #: certificates begin this long before they are made: clocks differ
_LONGEST_COMMON_NAME = 64  #: X.520; clients check only the alternative names
_HOSTNAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*", re.I)


class Pair(NamedTuple):
    """A certificate with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def authority(purpose: str, now: datetime, days: int) -> Pair:
    """Create an authority for one of PURPOSES; it cannot issue further authorities."""
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

    Raises UsageError for an invalid name and for a lifetime beyond the authority's, DataError if ``by`` was not made
    by ``authority``.
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
    """Names and addresses in a certificate; empty for an authority."""
    try:
        found = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    return [str(name.value) for name in found if isinstance(name, x509.DNSName | x509.IPAddress)]


def moment(when: datetime) -> str:
    """A time in readable form."""
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
