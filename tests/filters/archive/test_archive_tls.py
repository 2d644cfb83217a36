"""TLS between archiver and PostgreSQL, as the URL asks for it, with a server whose certificate is for one name."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from filters.archive.database.errors import ArchiveError
from filters.archive.database.store import open_store
from tests.filters.archive.conftest import bring_up
from tests.support import postgresql as servers
from tests.support.archive_rows import batch, rows
from tests.support.ports import base_port
from tests.support.postgresql import PostgreSQL

pytestmark = pytest.mark.slow
_NAME = "db.test"


def _certificate(directory: Path, name: str) -> None:
    """An authority for services, and its certificate for ``name`` and no other."""
    assert shardpulse(["certificates", "ca", "services", "--dir", str(directory / "ca")]) == 0
    assert shardpulse(["certificates", "issue", name, "--ca", str(directory / "ca"), "--out", str(directory)]) == 0


@pytest.fixture(scope="module")
def encrypted() -> Iterator[PostgreSQL]:
    with servers.server() as plain:
        (library,) = rows(plain.url(), "SHOW ssl_library")[0]
        if not library:
            pytest.skip("this PostgreSQL was built without TLS")
        servers.stop(plain)
        _certificate(plain.directory, _NAME)
        user = plain.directory.stat()
        for end in ("key", "pem"):
            os.chown(plain.directory / f"{_NAME}.{end}", user.st_uid, user.st_gid)
        settings = {
            "ssl": "on", "ssl_cert_file": f"{plain.directory}/{_NAME}.pem",
            "ssl_key_file": f"{plain.directory}/{_NAME}.key",
            "listen_addresses": "127.0.0.1", "port": base_port(1),
        }  # fmt: skip
        running = servers.start(plain.directory, plain.binaries, settings)
        running.execute("CREATE ROLE tester SUPERUSER LOGIN PASSWORD 'secret'")
        try:
            yield running
        finally:
            servers.stop(running, signal.SIGQUIT)


def test_tls_as_the_url_asks_for_it(encrypted: PostgreSQL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An encrypted connection to the server that the certificate names, or none: never one in the clear."""
    name = encrypted.create()
    bring_up(encrypted.url(name))
    _certificate(tmp_path, _NAME)
    passwords = tmp_path / "pgpass"
    passwords.write_text("*:*:*:tester:secret\n")
    passwords.chmod(0o600)
    monkeypatch.setenv("PGPASSFILE", str(passwords))
    trusted = tmp_path / "trusted.pem"
    shutil.copyfile(encrypted.directory / "ca" / "ca.pem", trusted)
    place = f"postgresql://tester@/{name}?hostaddr=127.0.0.1&port={encrypted.port}"

    with open_store(f"{place}&host={_NAME}&sslmode=verify-full&sslrootcert={trusted}") as store:
        assert store.commit(batch())
        used = "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE usename = 'tester'"
        assert rows(encrypted.url(name), used) == [(True,)]
    for host, root, mode, said in (
        ("other.test", trusted, "verify-full", "does not match host name"),
        (_NAME, tmp_path / "ca" / "ca.pem", "verify-full", "certificate verify failed"),
        (_NAME, tmp_path / "none.pem", "verify-full", "does not exist"),
        (_NAME, trusted, "disable", "no encryption"),
    ):
        url = f"{place}&host={host}&sslmode={mode}&sslrootcert={root}"
        with open_store(url) as store, pytest.raises(ArchiveError, match=said):
            store.cursors([3])
