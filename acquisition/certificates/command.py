"""``shardpulse certificates``: create authorities, issue and renew certificates."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from acquisition import help_text
from acquisition.errors import EXIT_FAILURE, EXIT_OK

if TYPE_CHECKING:
    from cryptography import x509

_DESCRIPTION = """\
Create the certificates that TLS requires off loopback: one authority for the shards, one for
services (serve, the database), and certificates for the names that clients connect to.

Keep an authority's directory only on the machine that you deploy from: its key can
impersonate any shard. Clients need only its ca.pem."""

_EXAMPLES = """
shardpulse certificates ca shards --dir authority       authority/ca.pem and authority/ca.key
shardpulse certificates ca services --dir services      an authority for serve and the database
shardpulse certificates issue shard-1.example.org 10.0.0.1 --ca authority --out certificates
shardpulse certificates show authority/*.pem certificates/*.pem     purpose and expiry of each
shardpulse certificates show --days 30 /etc/shardpulse/*.pem        exit code 1 if one expires within 30 days
"""
_AUTHORITY_DAYS, _DAYS, _MOST_DAYS = 3650, 397, 36500
_PURPOSES = ("shards", "services")


def main(argv: list[str]) -> int:
    """Run the command."""
    options = _parser().parse_args(argv)
    import cryptography  # noqa: F401  missing, it is missed before anything is made

    action: Callable[[argparse.Namespace], int] = options.action
    return action(options)


def ca(options: argparse.Namespace) -> int:
    """Create a certificate authority: ca.pem, which clients trust, and ca.key (mode 0600), which issues certificates.
    Existing files are never overwritten."""
    from acquisition.certificates import files, making

    made = making.authority(options.purpose, _now(), options.days)
    certificate, key = files.write(made, Path(options.dir), files.AUTHORITY)
    print(f"{certificate}: {_described(made.certificate)}")
    print(f"{key}: keep it on this machine, with a backup in a safe place")
    return EXIT_OK


def issue(options: argparse.Namespace) -> int:
    """Issue a certificate for one machine with these names and addresses; clients must connect to one of them. The
    files are named after the first."""
    from acquisition.certificates import files, making

    made = making.issue(files.read(Path(options.ca)), options.name, _now(), options.days)
    certificate, key = files.write(made, Path(options.out), options.name[0])
    print(f"{certificate}: {_described(made.certificate)}")
    print(f"{key}: only for the machine that the certificate names")
    return EXIT_OK


def show(options: argparse.Namespace) -> int:
    """Show the purpose and expiry of certificates. The exit code is 1 if one is not valid now, or expires within
    --days."""
    from acquisition.certificates import files, making

    found = [(path, files.read_certificate(Path(path))) for path in options.file]
    rows = [
        {
            "file": path,
            "subject": one.subject.rfc4514_string(),
            "issuer": one.issuer.rfc4514_string(),
            "names": making.names_of(one),
            "begins": one.not_valid_before_utc.isoformat(),
            "ends": one.not_valid_after_utc.isoformat(),
            "state": _state(one, options.days),
        }
        for path, one in found
    ]
    if options.json:
        print(json.dumps(rows, indent=2))
    else:
        for path, one in found:
            print(f"{path}: {_described(one)}; {_state(one, options.days)}")
    return EXIT_OK if all(row["state"] == "valid" for row in rows) else EXIT_FAILURE


def _now() -> datetime:
    return datetime.now(UTC).replace(microsecond=0)


def _state(one: x509.Certificate, days: int) -> str:
    now = _now()
    if now < one.not_valid_before_utc:
        return "not yet valid"
    if now >= one.not_valid_after_utc:
        return "expired"
    left = (one.not_valid_after_utc - now).days
    return f"expires in {left} days" if left < days else "valid"


def _described(one: x509.Certificate) -> str:
    from acquisition.certificates import making

    whose = ", ".join(making.names_of(one)) or one.subject.rfc4514_string()
    return f"{whose}, from {making.moment(one.not_valid_before_utc)} until {making.moment(one.not_valid_after_utc)}"


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("certificates", _DESCRIPTION, _EXAMPLES)
    actions = parser.add_subparsers(metavar="ca|issue|show", required=True)

    def add(action: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(action.__name__, help=text, description=action.__doc__, allow_abbrev=False)
        made.set_defaults(action=action)
        return made

    one = add(ca, "create a certificate authority")
    one.add_argument("purpose", choices=_PURPOSES, help="purpose of its certificates")
    one.add_argument("--dir", required=True, metavar="DIR", help="output directory for ca.pem and ca.key")
    _add_days(one, _AUTHORITY_DAYS)
    one = add(issue, "issue a certificate")
    one.add_argument("name", nargs="+", metavar="NAME", help="host name or IP address of the machine")
    one.add_argument("--ca", required=True, metavar="DIR", help="directory of the authority")
    one.add_argument("--out", required=True, metavar="DIR", help="output directory for certificate and key")
    _add_days(one, _DAYS)
    one = add(show, "show purpose and expiry of certificates")
    one.add_argument("file", nargs="+", metavar="FILE", help="a certificate")
    one.add_argument(
        "--days",
        type=help_text.whole(0, _MOST_DAYS),
        default=0,
        metavar="N",
        help="minimum remaining validity in days (default: 0)",
    )
    one.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_days(parser: argparse.ArgumentParser, usual: int) -> None:
    parser.add_argument(
        "--days", type=help_text.whole(1, _MOST_DAYS, " days"), default=usual, metavar="N",
        help=f"validity in days (default: {usual})",
    )  # fmt: skip
