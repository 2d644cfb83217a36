"""``shardpulse keys``: the secrets with which probes sign frames and filters verify them."""

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
Make the secrets with which probes sign their frames, so that a host cannot make frames in the
name of another one of its partition, whatever password it has.

Filters and archivers have the masters ([filter.signing] key_file), each host has a key of its
own ([probe.signing] key_file). Keep the masters from all other machines: anyone who has them can
sign as any host."""

_EXAMPLES = """
shardpulse keys master frames.key                        a new master secret, in a file of mode 0600
shardpulse keys host frames.key web-1 web-2 --out keys   keys/web-1.key and keys/web-2.key, one for each host
shardpulse keys show frames.key keys/*.key               what each is for, without the secret
shardpulse keys master frames.key --rotate               another master; the one before is accepted as well
shardpulse keys master frames.key --forget               the one before is accepted no more
"""
_LABEL = "shardpulse keys"


def main(argv: list[str]) -> int:
    """Run the command."""
    options = _parser().parse_args(argv)
    action: Callable[[argparse.Namespace], int] = options.action
    return action(options)


def master(options: argparse.Namespace) -> int:
    """Make a file with a master secret (mode 0600), or exchange the one in it: --rotate puts a new one before it, from
    which the keys of hosts are made then; --forget takes the old one away when all probes have new keys."""
    path = Path(options.file)
    if options.rotate or options.forget:
        found = files.read_masters(options.file, _LABEL)
        if options.forget:
            made = found[:1]
        elif len(found) == files.MOST_MASTERS:
            raise UsageError(f"{path} holds two masters already: --forget the old one when all probes have new keys")
        else:
            made = [os.urandom(signature.SECRET_SIZE), *found]
    else:
        made = [os.urandom(signature.SECRET_SIZE)]
    files.write(path, files.masters_text(made), replace=options.rotate or options.forget)
    print(f"{path}: {_masters_told(made)}")
    return EXIT_OK


def host(options: argparse.Namespace) -> int:
    """Make the keys of hosts with the first master of a file: DIR/NAME.key (mode 0600) for each. NAME is that of
    [host] name, or the hostname. Keys that are there are replaced only with --replace."""
    found = files.read_masters(options.file, _LABEL)[0]
    for name in options.name:
        if not name or name.startswith(".") or "/" in name:
            raise UsageError(f"{name!r} is no name of a host")
    for name in options.name:
        path = Path(options.out) / f"{name}.key"
        key = signature.host_key(found, host_id(name))
        files.write(path, files.host_key_text(host_id(name), key), replace=options.replace)
        print(f"{path}: {_host_told(host_id(name), key)}")
    return EXIT_OK


def show(options: argparse.Namespace) -> int:
    """Print what files of secrets are for: the numbers of masters, the host of a key; never a secret."""
    for path in options.file:
        print(f"{path}: {_told(path)}")
    return EXIT_OK


def _told(path: str) -> str:
    text = files.read(path, _LABEL)
    try:
        return _host_told(*files.parse_host_key(text))
    except DataError:
        pass
    try:
        return _masters_told(files.parse_masters(text))
    except DataError as error:
        raise ConfigError(f"{_LABEL}: {path} is neither a file of masters nor a host's key") from error


def _masters_told(masters: list[bytes]) -> str:
    current, *before = [signature.number_of(one).hex() for one in masters]
    return f"master {current}" + "".join(f", and {one} is accepted as well" for one in before)


def _host_told(number: int, key: signature.HostKey) -> str:
    return f"the key of host {number:016x}, of master {key.number.hex()}"


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("keys", _DESCRIPTION, _EXAMPLES)
    actions = parser.add_subparsers(metavar="master|host|show", required=True)

    def add(action: Callable[[argparse.Namespace], int], text: str) -> argparse.ArgumentParser:
        made = actions.add_parser(action.__name__, help=text, description=action.__doc__, allow_abbrev=False)
        made.set_defaults(action=action)
        return made

    one = add(master, "make or exchange a master secret")
    one.add_argument("file", metavar="FILE", help="the file of masters")
    change = one.add_mutually_exclusive_group()
    change.add_argument("--rotate", action="store_true", help="put another master before the one that is there")
    change.add_argument("--forget", action="store_true", help="keep the first master alone")
    one = add(host, "make the keys of hosts")
    one.add_argument("file", metavar="FILE", help="the file of masters")
    one.add_argument("name", nargs="+", metavar="NAME", help="a host")
    one.add_argument("--out", required=True, metavar="DIR", help="where the keys are put")
    one.add_argument("--replace", action="store_true", help="exchange keys that are there")
    one = add(show, "say what files of secrets are for")
    one.add_argument("file", nargs="+", metavar="FILE", help="a file of masters or a host's key")
    return parser
