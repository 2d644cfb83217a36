"""``shardpulse archive``: database that keeps samples beyond the shards."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from sqlalchemy import inspect

from acquisition import help_text
from acquisition.config import loader as config
from acquisition.errors import EXIT_OK, UsageError
from acquisition.link.trust.trusted_file import first_line
from filters.archive import run_command, status_command
from filters.archive.database import migrating, roles
from filters.archive.database.engine import make_engine, told
from filters.archive.place import PASSWORD_FILE, url_of, with_url

_DESCRIPTION = """\
Store rollups, episodes of invalid samples, events and the inventory in SQLite or PostgreSQL.

`run` copies samples from the shards to the database, `status` shows progress and contents by host,
`migrate` creates or updates the tables (`run` does so itself with SQLite), `roles` creates the users of a
PostgreSQL database. Passwords are read from files or by libpq itself (~/.pgpass, PGPASSFILE), never
from a command line or a URL."""

_EXAMPLES = """
shardpulse archive run                                  store into the default SQLite file
shardpulse archive status                               progress, and contents by host
shardpulse archive migrate                              create or update the tables only
shardpulse archive migrate --archive /data/archive.db
shardpulse archive roles --archive postgresql://postgres@db/metrics --writer-password-file writer.secret
shardpulse archive migrate --archive postgresql://shardpulse_owner@db/metrics?sslmode=verify-full
"""
Action = Callable[[argparse.Namespace, config.Settings], int]


def main(argv: list[str]) -> int:
    """Run the command."""
    options = _parser().parse_args(argv)
    action: Action = options.action
    return action(options, config.load(options.config))


def migrate(options: argparse.Namespace, settings: config.Settings) -> int:
    """Create the tables of the archive, or upgrade them to the version of this software."""
    url = url_of(with_url(settings.archive, options.archive))
    engine = make_engine(url)
    with told(url), engine.begin() as connection:
        before = migrating.version(connection)
        migrating.migrate(connection)
        if connection.dialect.name == "postgresql":
            roles.grant(connection)
    engine.dispose()
    came = "unchanged" if before == migrating.VERSION else f"previously {before or 'none'}"
    print(f"{url.render_as_string()}: schema {migrating.VERSION}, {came}")
    return EXIT_OK


def make_roles(options: argparse.Namespace, settings: config.Settings) -> int:
    """Create the roles shardpulse_owner, shardpulse_writer and shardpulse_reader, with least privileges.

    Run it as a superuser before the first migration, and again to change a password.
    """
    url = url_of(with_url(settings.archive, options.archive))
    if url.get_backend_name() != "postgresql":
        raise UsageError("roles require PostgreSQL: give a database with --archive postgresql://…")
    named = {role: getattr(options, f"{role.removeprefix('shardpulse_')}_password_file") for role in roles.ROLES}
    passwords = {role: first_line(path, PASSWORD_FILE) for role, path in named.items() if path}
    engine = make_engine(url)
    with told(url), engine.begin() as connection:
        roles.make(connection, passwords)
        if inspect(connection).has_table("alembic_version"):
            roles.grant(connection)
    engine.dispose()
    print(f"{url.render_as_string()}: {', '.join(roles.ROLES)}")
    return EXIT_OK


def _parser() -> argparse.ArgumentParser:
    parser = help_text.parser("archive", _DESCRIPTION, _EXAMPLES)
    actions = parser.add_subparsers(metavar="run|status|migrate|roles", required=True)
    for name, action, text in (
        ("run", run_command.run, "copy samples from the shards to the database"),
        ("status", status_command.run, "show progress and contents by host"),
        ("migrate", migrate, "create or update the tables"),
        ("roles", make_roles, "create the users of a PostgreSQL database"),
    ):
        sub = actions.add_parser(name, help=text, description=action.__doc__, allow_abbrev=False)
        sub.set_defaults(action=action)
        if action is status_command.run:
            status_command.add_options(sub)
            continue
        sub.add_argument("--archive", metavar="URL", help="PATH or postgresql://… (default: [archive] url)")
        if action is run_command.run:
            run_command.add_options(sub)
            continue
        sub.add_argument("--config", metavar="FILE", help=help_text.CONFIG_HELP)
        if action is make_roles:
            for role in roles.ROLES:
                short = role.removeprefix("shardpulse_")
                sub.add_argument(
                    f"--{short}-password-file",
                    metavar="FILE",
                    help=f"password file for {role} (default: no password is set)",
                )
    return parser
