"""Archive location from the configuration: URL, password and store."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from sqlalchemy import URL

from acquisition.config.archive import Archive
from acquisition.errors import CannotCreateError
from acquisition.link.trust.trusted_file import first_line
from filters.archive.database.engine import parse_url
from filters.archive.database.store import Store

PASSWORD_FILE = "password file"  #: of a database user, for errors


def with_url(settings: Archive, url: str | None) -> Archive:
    """Settings with the URL of an ``--archive`` option, if given."""
    return settings if url is None else replace(settings, url=url)


def url_of(settings: Archive) -> URL:
    """URL of the archive, with the password from the password file.

    Raises UsageError for an invalid URL or one with a password, NoInputError and ConfigError for a password file
    that is unreadable or readable by others, CannotCreateError if the directory of an SQLite file cannot be created.
    """
    url = parse_url(settings.url or str(_default()))
    if url.get_backend_name() == "postgresql":
        return url.set(password=first_line(settings.password_file, PASSWORD_FILE)) if settings.password_file else url
    if not settings.url:
        try:
            _default().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise CannotCreateError(f"the archive's directory {_default().parent}: {error.strerror}") from error
    return url


def store_of(settings: Archive) -> Store:
    """Store with these settings; it connects on first use."""
    return Store(url_of(settings), settings.cluster, settings.chunk_hours)


def _default() -> Path:
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "shardpulse" / "archive.db"
