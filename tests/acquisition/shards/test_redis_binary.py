"""Finding a redis-server: the system's first, then the wheel's, with clear words when there is none."""

from __future__ import annotations

import os
import sys

import pytest

from acquisition.errors import UnavailableError
from acquisition.shards.servers import redis_binary


def fake(directory, version, maker="Redis"):
    directory.mkdir(exist_ok=True)
    path = directory / f"{maker.lower()}-server"
    path.write_text(f"#!/bin/sh\necho '{maker} server v={version} sha=0:0 malloc=libc bits=64 build=0'\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture(autouse=True)
def _search(monkeypatch):
    monkeypatch.delenv(redis_binary.ENVIRONMENT, raising=False)
    monkeypatch.setattr(redis_binary, "_USUAL", ())


def test_the_real_one_is_found(monkeypatch):
    monkeypatch.undo()
    found = redis_binary.find()
    assert found.release >= (6, 2)
    assert os.access(found.path, os.X_OK)


def test_the_system_comes_before_the_wheel(tmp_path, monkeypatch):
    path = fake(tmp_path / "bin", "7.4.1")
    monkeypatch.setenv("PATH", f"{os.path.dirname(sys.executable)}:{tmp_path / 'bin'}:/usr/bin:/bin")
    assert redis_binary.find() == redis_binary.RedisBinary(path, "7.4.1", "system")


def test_wheel_copy_in_other_environment_is_not_a_system_server(tmp_path, monkeypatch):
    (tmp_path / "environment").mkdir()
    fake(tmp_path / "environment" / "bin", "6.2.14")
    (tmp_path / "environment" / "pyvenv.cfg").touch()
    path = fake(tmp_path / "bin", "7.0.15")
    monkeypatch.setenv("PATH", f"{tmp_path / 'environment' / 'bin'}:{tmp_path / 'bin'}")
    assert redis_binary.find() == redis_binary.RedisBinary(path, "7.0.15", "system")


def test_valkey_is_taken_before_redis_beside_it(tmp_path, monkeypatch):
    fake(tmp_path / "bin", "7.0.15")
    path = fake(tmp_path / "bin", "8.1.3", "Valkey")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = redis_binary.find()
    assert (found.path, found.name, found.source) == (path, "Valkey 8.1.3", "system")


def test_an_old_system_makes_way_for_the_wheel(tmp_path, monkeypatch):
    fake(tmp_path / "bin", "6.0.16")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert redis_binary.find().source == next(source for _, source in redis_binary.wheel_binaries())


def test_none_at_all_says_what_was_seen_and_what_to_install(tmp_path, monkeypatch):
    path = fake(tmp_path / "bin", "6.0.16")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:")
    monkeypatch.setattr(redis_binary, "WHEELS", {})
    with pytest.raises(UnavailableError) as caught:
        redis_binary.find()
    assert f"{path} is 6.0.16" in str(caught.value)
    assert "apt install redis-server" in str(caught.value)
    assert caught.value.exit_code == 69


def test_a_given_one_is_taken_or_refused(tmp_path, monkeypatch):
    path = fake(tmp_path / "bin", "8.0.2")
    assert redis_binary.find(path).source == "given"
    monkeypatch.setenv(redis_binary.ENVIRONMENT, path)
    assert redis_binary.find().version == "8.0.2"
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    assert redis_binary.find("redis-server").path == path
    with pytest.raises(UnavailableError, match="/bin/true does not run"):
        redis_binary.find("/bin/true")
    with pytest.raises(UnavailableError, match="/nonexistent does not run"):
        redis_binary.find("/nonexistent")
