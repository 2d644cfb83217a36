"""``shardpulse keys`` makes secrets that nobody else may read, never overwrites any unasked, and shows none."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from acquisition.cli import main as shardpulse
from acquisition.config.settings import FilterSigning
from acquisition.errors import ConfigError, NoInputError
from acquisition.model.identity import host_id
from acquisition.signing import files
from acquisition.wire import signature

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def masters(tmp_path: Path) -> Path:
    path = tmp_path / "secrets" / "frames.key"
    assert shardpulse(["keys", "master", str(path)]) == 0
    return path


def made(masters: Path, *words: str, out: str = "keys") -> list[Path]:
    directory = masters.parent.parent / out
    assert shardpulse(["keys", "host", str(masters), *words, "--out", str(directory)]) == 0
    return [directory / f"{word}.key" for word in words if not word.startswith("-")]


def test_hosts_sign_and_filters_verify_with_what_is_made(masters: Path, capsys: Captured) -> None:
    (one, two) = made(masters, "web-1", "web-2")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (masters, one, two)} == {0o600}
    (master,) = files.read_masters(str(masters), "masters")
    key = files.read_host_key(str(one), "web-1")
    assert key == signature.host_key(master, host_id("web-1"))
    assert key != files.read_host_key(str(two), "web-2")
    assert files.verifier_of(FilterSigning(key_file=str(masters))) is not None
    assert files.verifier_of(FilterSigning()) is None
    said = capsys.readouterr().out
    assert f"web-1.key: the key of host {host_id('web-1'):016x}, of master {key.number.hex()}\n" in said
    assert not any(secret.hex() in said for secret in (master, key.secret))


def test_nothing_is_overwritten_unasked(masters: Path, capsys: Captured) -> None:
    before = masters.read_text()
    assert shardpulse(["keys", "master", str(masters)]) == 73
    (path,) = made(masters, "web-1")
    kept = path.read_text()
    assert shardpulse(["keys", "host", str(masters), "web-1", "--out", str(path.parent)]) == 73
    assert capsys.readouterr().err.splitlines() == [
        f"shardpulse: error: {masters} already exists",
        f"shardpulse: error: {path} already exists",
    ]
    assert (masters.read_text(), path.read_text()) == (before, kept)


def test_masters_are_exchanged_one_at_a_time(masters: Path, capsys: Captured) -> None:
    (path,) = made(masters, "web-1")
    (first,) = files.read_masters(str(masters), "masters")
    assert shardpulse(["keys", "master", str(masters), "--rotate"]) == 0
    second, kept = files.read_masters(str(masters), "masters")
    assert kept == first != second
    assert shardpulse(["keys", "master", str(masters), "--rotate"]) == 2
    made(masters, "web-1", "--replace")
    assert files.read_host_key(str(path), "web-1") == signature.host_key(second, host_id("web-1"))
    capsys.readouterr()
    assert shardpulse(["keys", "show", str(masters), str(path)]) == 0
    numbers = [signature.number_of(one).hex() for one in (second, first)]
    assert capsys.readouterr().out.splitlines() == [
        f"{masters}: master {numbers[0]}, and {numbers[1]} is accepted as well",
        f"{path}: the key of host {host_id('web-1'):016x}, of master {numbers[0]}",
    ]
    assert shardpulse(["keys", "master", str(masters), "--forget"]) == 0
    assert files.read_masters(str(masters), "masters") == [second]
    assert stat.S_IMODE(masters.stat().st_mode) == 0o600


def test_a_key_of_another_host_is_told(masters: Path) -> None:
    (path,) = made(masters, "web-1")
    with pytest.raises(
        ConfigError, match=f"{path} contains the key of host .* this host is web-2 .*`shardpulse keys host`"
    ):
        files.read_host_key(str(path), "web-2")


def test_the_files_are_not_taken_for_each_other(masters: Path, capsys: Captured) -> None:
    (path,) = made(masters, "web-1")
    with pytest.raises(ConfigError, match="a master key, which is only for filters and archivers"):
        files.read_host_key(str(masters), "web-1")
    with pytest.raises(ConfigError, match="a host key, expected masters"):
        files.read_masters(str(path), "masters")


@pytest.mark.parametrize("text", ["", "x\n", "shardpulse-master-key 00\n", "shardpulse-host-key 0 0 0\n", "\n" * 3])
def test_what_is_no_secret_is_refused(tmp_path: Path, text: str, capsys: Captured) -> None:
    path = tmp_path / "file"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError, match=str(path)):
        files.read_masters(str(path), "masters")
    with pytest.raises(ConfigError, match=str(path)):
        files.read_host_key(str(path), "web-1")
    assert shardpulse(["keys", "show", str(path)]) == 78
    assert capsys.readouterr().err.count("\n") == 1


def test_what_others_may_read_is_no_secret(masters: Path) -> None:
    masters.chmod(0o644)
    with pytest.raises(ConfigError, match="readable by other users"):
        files.read_masters(str(masters), "masters")
    with pytest.raises(NoInputError, match="cannot read"):
        files.read_masters(str(masters.parent / "none"), "masters")


def test_names_that_are_no_names_make_nothing(masters: Path, tmp_path: Path) -> None:
    for name in ("", "../x", ".x"):
        assert shardpulse(["keys", "host", str(masters), "web-1", name, "--out", str(tmp_path / "keys")]) == 2
    assert not (tmp_path / "keys").exists()
