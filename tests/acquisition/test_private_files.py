"""What commands make belongs to this user alone, whatever the umask; what others may write is not read."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from acquisition import cli, private_files
from acquisition.cli import main as shardpulse
from acquisition.errors import EXIT_CONFIG
from tests.support.processes import started
from tests.support.waiting import eventually

PARTS = ("filter", "probe", "serve", "archive run")
#: Each command that ends by itself, those that need another's files after it; DIR is the directory for all of them.
COMMANDS = (
    "certificates ca services --dir DIR/ca/services", "certificates issue web-1 --ca DIR/ca/services --out DIR/ca/one",
    "keys master DIR/keys/master", "keys host DIR/keys/master web-1 --out DIR/keys/hosts",
    "shards render users --passwords DIR/render/passwords", "capture --seconds 1 DIR/captures/one",
    "replay proc DIR/captures/one", "archive migrate --archive DIR/other.db", "metrics --output DIR/samples.prom",
    "query --json", "top --once", "status", "hosts", "archive status", "config", "shards down",
)  # fmt: skip
#: What others have to read: docs/security.md.
SHARED = {"DIR/ca/services/ca.pem", "DIR/ca/one/web-1.pem", "DIR/samples.prom"}


def walked(place: Path) -> dict[str, str]:
    """Modes that are not those of private files, by path; what goes away meanwhile is no matter."""
    found = {}
    for path in place.rglob("*"):
        try:
            status = path.lstat()
        except FileNotFoundError:
            continue
        if not stat.S_ISLNK(status.st_mode):
            wanted = 0o700 if stat.S_ISDIR(status.st_mode) else private_files.MODE
            if stat.S_IMODE(status.st_mode) != wanted:
                found[str(path).replace(str(place), "DIR")] = f"{stat.S_IMODE(status.st_mode):04o}"
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    made = tmp_path / "made"
    made.mkdir(0o700)
    private_files.write(
        tmp_path / "shardpulse.toml",
        f'[shards]\ncount = 1\nbase_port = 0\n[probe]\ninterval_seconds = 0.2\nring_path = "{made}/ring"\n'
        '[serve]\nbind = "127.0.0.1:0"\n',
    )
    return made


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_whatever_commands_make_is_private(place: Path, umask: int) -> None:
    config = place.parent / "shardpulse.toml"
    environment = {
        **os.environ, "HOME": f"{place}/home", "XDG_RUNTIME_DIR": f"{place}/run", "XDG_STATE_HOME": f"{place}/state",
        "SHARDPULSE_CONFIG": str(config),
    }  # fmt: skip

    def command(words: str) -> list[str]:
        return [sys.executable, "-m", "acquisition", *words.replace("DIR", str(place)).split()]

    def run(words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command(words), env=environment, umask=umask, capture_output=True, text=True)

    def succeed(words: str) -> None:
        done = run(words)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"

    succeed("shards up")
    try:
        with ExitStack() as stack:
            for words in PARTS:
                stack.enter_context(started(command(words), env=environment, umask=umask, stdout=subprocess.DEVNULL))
            archive = place / "state" / "shardpulse"
            eventually(lambda: {"archive.db", "archive.db-wal"} <= {path.name for path in archive.glob("*")})
            eventually(lambda: run("status").returncode == 0, says=lambda: run("status").stdout)
            for words in COMMANDS[:-1]:
                succeed(words)
            found = walked(place)
            assert (place / "run" / "shardpulse" / "shard-0" / "redis.log").exists()
    finally:
        succeed(COMMANDS[-1])
    assert found == dict.fromkeys(SHARED, "0644")
    assert {words.split()[0] for words in (*PARTS, *COMMANDS)} == set(cli.SUMMARIES), "a command is not tried here"


@pytest.mark.parametrize(("mode", "words"), [(0o666, "0666"), (0o620, "0620"), (0o602, "0602")])
def test_a_configuration_that_others_can_write_is_refused(
    tmp_path: Path, mode: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "shardpulse.toml"
    path.write_text("# defaults\n")
    path.chmod(mode)
    assert shardpulse(["config", "--config", str(path)]) == EXIT_CONFIG
    said = f"configuration {path} is writable by other users (mode {words}) and is not trusted: run chmod go-w on it"
    assert said in capsys.readouterr().err
    path.chmod(0o644)
    assert shardpulse(["config", "--config", str(path)]) == 0


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a"
    private_files.write(path, "one")
    (tmp_path / "a.part").write_text("of a command that was killed")
    with pytest.raises(FileExistsError):
        private_files.write(path, "two")
    assert path.read_text() == "one"
    private_files.write(path, b"three", replace=True)
    assert ([each.name for each in tmp_path.iterdir()], path.read_bytes()) == (["a"], b"three")


@pytest.mark.needs("git")
def test_git_passes_over_directories_of_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    for words in (
        "certificates ca shards --dir secrets/ca", "certificates issue web-1 --ca secrets/ca --out issued",
        "shards render users --passwords empty", "keys master keys/frames.key",
        "keys host keys/frames.key web-1 --out hosts", "certificates ca services --dir mine", "keys master here.key",
    ):  # fmt: skip
        assert shardpulse(words.split()) == 0
    status = ["git", "status", "--porcelain", "--untracked-files=all"]
    seen = subprocess.run(status, check=True, capture_output=True, text=True).stdout.split()[1::2]
    assert set(seen) == {"here.key", "mine/ca.key", "mine/ca.pem", "mine/notes"}  # what was there is the user's own
