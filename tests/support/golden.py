"""Golden surfaces as text: ``python -m tests.support.golden`` writes them.

They are what users rely on, in tests/golden.

Options and messages of help, keys of the configuration, the HTTP interface, exit codes, users and rights in the shards,
key names in the shards, tables of the archive, and families of ``/metrics``. tests/test_golden.py compares each file
with what the code prints, so a change of a surface is a change of a tracked file.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from acquisition import cli
from acquisition.config.settings import Settings
from acquisition.errors import EXIT_CODES
from acquisition.wire import keys
from filters.archive.database.engine import make_engine, parse_url
from filters.archive.database.migrating import migrate
from filters.prometheus import catalogue
from filters.service.http.access import access
from filters.service.interface import openapi
from filters.service.service import Service
from tests.support import ROOT

DIRECTORY = ROOT / "tests" / "golden"
_SUBCOMMAND = re.compile(r"^    (\w+) ", re.MULTILINE)
_WITH_ACTIONS = ("shards", "archive", "certificates", "keys")


def _run(*arguments: str) -> str:
    """Standard output of a command, in this process, 100 columns wide, on two cores."""
    said = io.StringIO()
    with (
        mock.patch.dict(os.environ, {"COLUMNS": "100"}),
        mock.patch.object(os, "sched_getaffinity", return_value={0, 1}),
        contextlib.redirect_stdout(said),
        contextlib.suppress(SystemExit),
    ):
        cli.main(list(arguments))
    return said.getvalue()


def _help() -> str:
    pages = {"": _run("--help")}
    for command in cli.SUMMARIES:
        pages[command] = _run(command, "--help")
        if command in _WITH_ACTIONS:
            actions = _SUBCOMMAND.findall(pages[command].partition("\noptions:")[0])
            pages |= {f"{command} {action}": _run(command, action, "--help") for action in actions}
    return "".join(f"$ shardpulse {name} --help\n{text}\n" for name, text in pages.items())


def _http() -> str:
    settings = Settings()
    document = openapi.document(Service(settings, access(settings.serve)).resources, token=True)
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def _users() -> str:
    with tempfile.TemporaryDirectory() as place:
        text = _run("shards", "render", "users", "--passwords", place, "--host", "node1", "--host", "node2")
    return re.sub(r"#[0-9a-f]{64}", "#HASH", text)


def _schema() -> str:
    with tempfile.TemporaryDirectory() as place:
        engine = make_engine(parse_url(f"sqlite:///{place}/archive.sqlite"))
        with engine.begin() as connection:
            migrate(connection)
            question = "SELECT type, name, sql FROM sqlite_master WHERE sql <> '' ORDER BY name"
            statements = [
                f"VIEW {name} {[row[1:3] for row in connection.exec_driver_sql(f'PRAGMA table_info({name})')]}"
                if kind == "view"  # what readers see of it; how it is computed may change
                else statement
                for kind, name, statement in connection.exec_driver_sql(question).all()
            ]
        engine.dispose()
    return "".join(f"{statement};\n" for statement in statements)


def _keys() -> str:
    return "".join(line + "\n" for line in (keys.__doc__ or "").splitlines() if line.startswith("``"))


def _families() -> str:
    return catalogue.markdown()


SURFACES: dict[str, Callable[[], str]] = {
    "help.txt": _help,
    "config.toml": lambda: _run("config"),
    "openapi.json": _http,
    "exit-codes.txt": lambda: "".join(f"{code} {meaning}\n" for code, meaning in EXIT_CODES.items()),
    "users.acl": _users,
    "keys.txt": _keys,
    "archive.sql": _schema,
    "metrics.md": _families,
}


def main(directory: Path = DIRECTORY) -> None:
    """Write every surface to its file."""
    directory.mkdir(exist_ok=True)
    for name, text in SURFACES.items():
        (directory / name).write_text(text())


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
