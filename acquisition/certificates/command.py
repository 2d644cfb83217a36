"""``shardpulse certificates``: authorities of the operator's own, and certificates of shards and services."""

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
Make what TLS needs off loopback: an authority for the shards, another one for services
(serve, the database), and certificates of both for the names that clients connect to.

Keep the directory of an authority on the machine that you deploy from, and on no other:
anyone who has its key can pose as any shard. Clients need its ca.pem and nothing else."""

_EXAMPLES = """
shardpulse certificates ca shards --dir authority       authority/ca.pem and authority/ca.key
shardpulse certificates ca services --dir services      a second one, for serve and the database
shardpulse certificates issue shard-1.example.org 10.0.0.1 --ca authority --out certificates
shardpulse certificates show authority/*.pem certificates/*.pem     what each is for and when it ends
shardpulse certificates show --days 30 /etc/shardpulse/*.pem        exit code 1 when one ends within 30 days
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
    """Make an authority of its own: ca.pem, which clients believe, and ca.key (mode 0600), which makes certificates.
    Files that are there are never overwritten."""
    from acquisition.certificates import files, making

    made = making.authority(options.purpose, _now(), options.days)
    certificate, key = files.write(made, Path(options.dir), files.AUTHORITY)
    print(f"{certificate}: {_told(made.certificate)}")
    print(f"{key}: keep it on this machine, and a copy where nobody else comes")
    return EXIT_OK


def issue(options: argparse.Namespace) -> int:
    """Make a certificate for one machine with these names and addresses; clients must connect to one of them. The
    files are called as the first of them."""
    from acquisition.certificates import files, making

    made = making.issue(files.read(Path(options.ca)), options.name, _now(), options.days)
    certificate, key = files.write(made, Path(options.out), options.name[0])
    print(f"{certificate}: {_told(made.certificate)}")
    print(f"{key}: for that machine only")
    return EXIT_OK


def show(options: argparse.Namespace) -> int:
    """Print what certificates are for and when they end. The exit code is 1 when one is not valid now, or ends within
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
            print(f"{path}: {_told(one)}; {_state(one, options.days)}")
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
    return f"ends in {left} days" if left < days else "valid"


def _told(one: x509.Certificate) -> str:
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

    one = add(ca, "make an authority")
    one.add_argument("purpose", choices=_PURPOSES, help="what it vouches for")
    one.add_argument("--dir", required=True, metavar="DIR", help="where ca.pem and ca.key are put")
    _add_days(one, _AUTHORITY_DAYS)
    one = add(issue, "make a certificate")
    one.add_argument("name", nargs="+", metavar="NAME", help="a name or address of the machine")
    one.add_argument("--ca", required=True, metavar="DIR", help="the directory of the authority")
    one.add_argument("--out", required=True, metavar="DIR", help="where certificate and key are put")
    _add_days(one, _DAYS)
    one = add(show, "say what certificates are for and when they end")
    one.add_argument("file", nargs="+", metavar="FILE", help="a certificate")
    one.add_argument(
        "--days", type=help_text.whole(0, _MOST_DAYS), default=0, metavar="N", help="that are to be left (default: 0)"
    )
    one.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _add_days(parser: argparse.ArgumentParser, usual: int) -> None:
    parser.add_argument(
        "--days", type=help_text.whole(1, _MOST_DAYS, " days"), default=usual, metavar="N",
        help=f"how long it is valid (default: {usual})",
    )  # fmt: skip
