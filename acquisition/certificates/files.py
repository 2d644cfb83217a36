"""Certificate and key files: keys are private, existing files are kept."""

from __future__ import annotations

from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from acquisition import private_files
from acquisition.certificates.making import Pair
from acquisition.errors import CannotCreateError, DataError, NoInputError

AUTHORITY = "ca"  #: base name of an authority's files in its directory
_CERTIFICATE_MODE = 0o644  #: certificates are public and read by the users of other parts


def write(pair: Pair, directory: Path, name: str) -> tuple[Path, Path]:
    """Create ``name.pem`` and ``name.key``, or neither; the directory is created if missing.

    Raises CannotCreateError, also if either file exists: files in use are never replaced.
    """
    certificate, key = directory / f"{name}.pem", directory / f"{name}.key"
    form, none = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    try:
        private_files.make_secrets_directory(directory)
        private_files.write(key, pair.key.private_bytes(serialization.Encoding.PEM, form, none))
        try:
            public = pair.certificate.public_bytes(serialization.Encoding.PEM)
            private_files.write(certificate, public, mode=_CERTIFICATE_MODE)
        except BaseException:
            key.unlink()
            raise
    except FileExistsError as error:
        raise CannotCreateError(f"{error.filename2} already exists; move it away first") from error
    except OSError as error:
        raise CannotCreateError(f"cannot create {error.filename or directory}: {error.strerror}") from error
    return certificate, key


def read(directory: Path, name: str = AUTHORITY) -> Pair:
    """Pair created by ``write``. Raises NoInputError if a file cannot be read, DataError if it is damaged or
    certificate and key do not belong together."""
    certificate, path = read_certificate(directory / f"{name}.pem"), directory / f"{name}.key"
    try:
        key = serialization.load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError) as error:
        raise DataError(f"{path}: not an unencrypted private key: {error}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.public_key() != certificate.public_key():
        raise DataError(f"the key in {path} does not match the certificate beside it")
    return Pair(certificate, key)


def read_certificate(path: Path) -> x509.Certificate:
    """The first certificate in a file. Raises NoInputError or DataError."""
    try:
        return x509.load_pem_x509_certificate(_read(path))
    except ValueError as error:
        raise DataError(f"{path} contains no certificate") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NoInputError(f"cannot read {path}: {error.strerror}") from error
