"""Runs stored in an archive with their results: ``--archive``.

Every benchmark has this option.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from acquisition.errors import UsageError

_BEGAN = time.time()  #: start of this program, and so of its run


def place(text: str) -> str:
    """The URL of an ``--archive`` option, checked before hours are spent. Raises ArgumentTypeError."""
    from filters.archive.database.engine import parse_url

    try:
        parse_url(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text


def keep(url: str, document: Mapping[str, Any]) -> None:
    """Write a document of ``outcome`` as a run. A missing file is created. Raises ArchiveError."""
    from filters.archive.database.engine import make_engine, parse_url, told
    from filters.archive.database.migrating import migrate
    from filters.archive.database.store import open_store
    from filters.archive.minutes.values import Batch, Run

    engine = make_engine(parse_url(url))
    if engine.dialect.name == "sqlite":
        with told(engine.url), engine.begin() as connection:
            migrate(connection)
    engine.dispose()
    ended = datetime.fromisoformat(document["date"]).timestamp()
    began = min(_BEGAN, ended)
    name = f"{document['command'].split()[2]} {document['date']}"
    with open_store(url) as store:
        store.commit(Batch((), runs=(Run(name, began, document["command"], ended, document),)))
