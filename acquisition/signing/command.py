"""``shardpulse keys``: create the secrets that sign and verify frames."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path

from acquisition import help_text
from acquisition.errors import EXIT_OK, ConfigError, DataError, UsageError
from acquisition.model.identity import host_id
from acquisition.signing import files
from acquisition.wire import signature

_DESCRIPTION = """\
Create the secrets with which probes sign their frames. Signatures prevent a host from sending
frames in the name of another host, whatever password it has.

Filters and archivers have the master secrets ([filter.signing] key_file), each host has its own
key ([probe.signing] key_file). Keep the master secrets off all other machines: they can sign as
any host."""

_EXAMPLES = """
shardpulse keys master frames.key                        a new master secret, in a file of mode 0600
shardpulse keys host frames.key web-1 web-2 --out keys   keys/web-1.key and keys/web-2.key, one for each host
shardpulse keys show frames.key keys/*.key               purpose of each, without the secret
shardpulse keys master frames.key --rotate               a new master; the previous one is still accepted
shardpulse keys master frames.key --forget               the previous one is no longer accepted
"""
_LABEL = "shardpulse keys"


def main(argv: list[str]) -> int:
    """Run the command."""
    options = _parser().parse_args(argv)
    action: Callable[[argparse.Namespace], int] = options.action
    return action(options)


def master(options: argparse.Namespace) -> int:
    """Create a file with a master secret (mode 0600), or change it: --rotate adds a new secret, from which host keys
    are derived from then on; --forget removes the old one, once all probes have new keys."""
    path = Path(options.file)
    if options.rotate or options.forget:
        found = files.read_masters(options.file, _LABEL)
        if options.forget:
            made = found[:1]
        elif len(found) == files.MOST_MASTERS:
            raise UsageError(f"{path} already has two masters; --forget the old one when all probes have new keys")
        else:
            made = [os.urandom(signature.SECRET_SIZE), *found]
    else:
        made = [os.urandom(signature.SECRET_SIZE)]
    files.write(path, files.masters_text(made), replace=options.rotate or options.forget)
    print(f"{path}: {_masters_described(made)}")
    return EXIT_OK


def host(options: argparse.Namespace) -> int:
    """Create host keys from the first master of a file: DIR/NAME.key (mode 0600) for each. NAME is that of [host]
    name, or the hostname. Existing keys are replaced only with --replace."""
    found = files.read_masters(options.file, _LABEL)[0]
    for name in options.name:
        if not name or name.startswith(".") or "/" in name:
            raise UsageError(f"invalid host name {name!r}")
    for name in options.name:
        path = Path(options.out) / f"{name}.key"
        key = signature.host_key(found, host_id(name))
        files.write(path, files.host_key_text(host_id(name), key), replace=options.replace)
        print(f"{path}: {_host_described(host_id(name), key)}")
    return EXIT_OK


def show(options: argparse.Namespace) -> int:
    """Show the purpose of secret files: the numbers of masters, the host of a key; never a secret."""
    for path in options.file:
        print(f"{path}: {_described(path)}")
    return EXIT_OK


def _described(path: str) -> str:
    text = files.read(path, _LABEL)
    try:
        return _host_described(*files.parse_host_key(text))
    except DataError:
        pass
    try:
        return _masters_described(files.parse_masters(text))
    except DataError as error:
        raise ConfigError(f"{_LABEL}: {path} is neither a master file nor a host key") from error


def _masters_described(masters: list[bytes]) -> str:
    current, *before = [signature.number_of(one).hex() for one in masters]
    return f"master {current}" + "".join(f", and {one} is accepted as well" for one in before)


def _host_described(number: int, key: signature.HostKey) -> str:
    return f"the key of host {number:016x}, of master {key.number.hex()}"


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("keys", _DESCRIPTION, _EXAMPLES)
    actions = parser.add_subparsers(metavar="master|host|show", required=True)

    def add(action: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(action.__name__, help=text, description=action.__doc__, allow_abbrev=False)
        made.set_defaults(action=action)
        return made

    one = add(master, "create or replace a master secret")
    one.add_argument("file", metavar="FILE", help="file of master secrets")
    change = one.add_mutually_exclusive_group()
    change.add_argument("--rotate", action="store_true", help="add a new master before the existing one")
    change.add_argument("--forget", action="store_true", help="keep only the first master")
    one = add(host, "create host keys")
    one.add_argument("file", metavar="FILE", help="file of master secrets")
    one.add_argument("name", nargs="+", metavar="NAME", help="a host")
    one.add_argument("--out", required=True, metavar="DIR", help="output directory")
    one.add_argument("--replace", action="store_true", help="replace existing keys")
    one = add(show, "show the purpose of secret files")
    one.add_argument("file", nargs="+", metavar="FILE", help="master file or host key")
    return parser
