"""``shardpulse shards passwords begin|finish``: users of a running cluster get other passwords, and lose nothing."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, UsageError
from acquisition.shards.commands import remote_command, rotation
from acquisition.shards.servers import password_files
from acquisition.shards.topology.nodes import Members

BEGIN, FINISH = "begin", "finish"


def passwords(options: argparse.Namespace, settings: config.Shards) -> int:
    """Exchange passwords in two steps, as the user `keeper`. `begin` makes USER.next in --passwords and lets it be
    valid on every shard beside the one in USER. Then give clients the new one: they read their password file for each
    login. `finish` takes the old one away everywhere, ends the sessions of these users, which come back with the new
    one, and renames USER.next to USER. Each step may be repeated; a shard that does not answer stops it before anything
    changes."""
    addresses, user = remote_command.named(options, settings)
    directory, users = Path(options.passwords), list(dict.fromkeys(options.user))
    with Members(addresses, user, settings.timeout_seconds) as members:
        if options.step == BEGIN:
            coming = password_files.begin(directory, users)
            told = {"step": BEGIN, "users": users, "shards": len(rotation.begin(members, coming))}
        else:
            coming = password_files.coming(directory, users)
            if missing := [name for name in users if name not in coming]:
                raise UsageError(f"no rotation of {', '.join(missing)} was begun in {directory}")
            told = {"step": FINISH, "users": users, "sessions": rotation.finish(members, coming)}
            for name in users:
                password_files.finish(directory, name)
    print(json.dumps(told) if options.json else _text(told, directory))
    return EXIT_OK


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of ``passwords``."""
    parser.add_argument("step", choices=(BEGIN, FINISH), help="let the next password be valid too; then it alone")
    parser.add_argument("user", nargs="+", metavar="USER", help="whose: probe, filter, probe@HOST …")
    parser.add_argument("--passwords", required=True, metavar="DIR", help="a file for each user, as of `render`")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _text(told: dict[str, object], directory: Path) -> str:
    if told["step"] == BEGIN:
        where = f"{directory}/USER.next"
        return f"two passwords are valid on {told['shards']} shards: give clients those in {where}, then finish"
    return f"the old passwords are gone, {told['sessions']} sessions were ended: render the files of users again"
