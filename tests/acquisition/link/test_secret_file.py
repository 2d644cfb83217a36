"""Which files are believed to hold a secret."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from acquisition.config.endpoints import credentials
from acquisition.config.settings import Shards
from acquisition.errors import ConfigError, NoInputError
from acquisition.link.trust import trusted_file

LABEL = "key x.password_file"


@pytest.fixture
def lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A credential as systemd lends it: in a directory of its own, with the mode that stat(2) shows for an ACL."""
    place = tmp_path / "credentials"
    place.mkdir()
    path = place / "password"
    path.write_text("s3cret\nand more\n")
    path.chmod(0o440)
    place.chmod(0o550)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(place))
    return path


@pytest.mark.parametrize("mode", [0o400, 0o440, 0o600, 0o640])
def test_what_systemd_lends_is_believed(mode: int, lent: Path) -> None:
    lent.chmod(mode)
    assert trusted_file.first_line(str(lent), LABEL) == "s3cret"
    assert trusted_file.first_line("$CREDENTIALS_DIRECTORY/password", LABEL) == "s3cret"
    assert credentials(Shards(password_file="$CREDENTIALS_DIRECTORY/password")).password == "s3cret"


@pytest.mark.parametrize("mode", [0o444, 0o604, 0o660, 0o644])
def test_what_others_may_read_or_write_is_not(mode: int, lent: Path) -> None:
    lent.chmod(mode)
    with pytest.raises(ConfigError, match=r"(readable|writable) by other users"):
        trusted_file.first_line(str(lent), LABEL)


@pytest.mark.parametrize("mode", [0o555, 0o570, 0o551])
def test_a_directory_that_others_may_enter_lends_nothing(mode: int, lent: Path) -> None:
    lent.parent.chmod(mode)
    with pytest.raises(ConfigError, match="readable by other users"):
        trusted_file.first_line(str(lent), LABEL)


def test_elsewhere_a_group_is_others(lent: Path, tmp_path: Path) -> None:
    other = tmp_path / "password"
    other.write_text("s3cret\n")
    other.chmod(0o440)
    with pytest.raises(ConfigError, match="chmod 600"):
        trusted_file.first_line(str(other), LABEL)
    other.chmod(0o400)
    assert trusted_file.first_line(str(other), LABEL) == "s3cret"


@pytest.mark.skipif(os.geteuid() != 0, reason="takes root to give a file away")
def test_another_users_file_is_not_believed_wherever_it_lies(lent: Path) -> None:
    os.chown(lent, 12345, 0)
    with pytest.raises(ConfigError, match="belongs to another user"):
        trusted_file.first_line(str(lent), LABEL)


def test_what_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(NoInputError, match=rf"{LABEL}: \$CREDENTIALS_DIRECTORY.*LoadCredential"):
        trusted_file.first_line("$CREDENTIALS_DIRECTORY/password", LABEL)
    with pytest.raises(NoInputError, match=f"{LABEL}: .*cannot read .*none"):
        trusted_file.first_line(str(tmp_path / "none"), LABEL)
    (tmp_path / "empty").touch(0o600)
    with pytest.raises(NoInputError, match="no password in"):
        trusted_file.first_line(str(tmp_path / "empty"), LABEL)
