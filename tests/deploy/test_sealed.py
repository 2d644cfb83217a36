"""deploy/sealed: the controller's secrets lie in a vault, and open only while a command runs. With the real vault."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support import ROOT
from tests.support.waiting import eventually

pytest.importorskip("ansible", reason="ansible-core is of the extra test")

BIN = Path(sys.executable).parent


class Vault(NamedTuple):
    """Where everything lies."""

    directory: Path
    memory: Path  #: what lies open: nothing but while a command runs

    @property
    def file(self) -> Path:
        return self.directory / "secrets.vault"

    def begin(self, *command: str) -> subprocess.Popen[str]:
        """A command with the secrets."""
        environment = os.environ | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "ANSIBLE_HOME": str(self.directory / "ansible"),
            "ANSIBLE_VAULT_PASSWORD_FILE": str(self.directory / "password"),
            "XDG_RUNTIME_DIR": str(self.memory),
        }
        return subprocess.Popen(
            [str(ROOT / "deploy" / "sealed"), str(self.file), *command],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip

    def run(self, *command: str) -> tuple[int, str]:
        """Its exit code, and what was printed."""
        process = self.begin(*command)
        said = "".join(process.communicate(timeout=120))
        return process.returncode, said

    def shell(self, line: str) -> tuple[int, str]:
        """The same for a line of a shell that works in the directory of the secrets."""
        return self.run("sh", "-c", f'cd "$SHARDPULSE_SECRETS" && {line}')


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[Vault]:
    (tmp_path / "password").write_text("of the vault\n")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        made = Vault(tmp_path, Path(memory))
        assert made.shell("mkdir passwords && echo hush > passwords/probe") == (0, "")
        yield made


def test_secrets_are_open_only_while_a_command_runs(vault: Vault) -> None:
    assert vault.file.read_text().startswith("$ANSIBLE_VAULT;1.1;AES256\n")
    assert vault.file.stat().st_mode & 0o777 == 0o600
    assert list(vault.memory.iterdir()) == []
    sealed = vault.file.read_bytes()
    assert vault.shell("cat passwords/probe; stat -c %a .") == (0, "hush\n700\n")
    assert vault.file.read_bytes() == sealed, "nothing had changed"


def test_what_a_command_makes_is_sealed_however_it_ends(vault: Vault) -> None:
    assert vault.shell("echo more > token; exit 3")[0] == 3
    process = vault.begin("sh", "-c", 'echo term > "$SHARDPULSE_SECRETS/term"; sleep 60')
    eventually(lambda: list(vault.memory.glob("*/term")), 30)
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert list(vault.memory.iterdir()) == []
    assert vault.shell("cat token term") == (0, "more\nterm\n")


def test_what_a_killed_run_left_is_sealed_by_the_next(vault: Vault) -> None:
    process = vault.begin("sh", "-c", 'echo new > "$SHARDPULSE_SECRETS/new"; sleep 60')
    eventually(lambda: list(vault.memory.glob("*/new")), 30)
    assert vault.run("true") == (75, f"deploy/sealed: {vault.file} is open in another run\n")
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)
    code, said = vault.shell("cat new passwords/probe")
    assert (code, said.splitlines()[:2]) == (0, ["new", "hush"])
    assert "what it left is sealed first" in said
    assert vault.shell("cat new") == (0, "new\n")


def test_a_wrong_password_opens_and_changes_nothing(vault: Vault) -> None:
    sealed = vault.file.read_bytes()
    (vault.directory / "password").write_text("another\n")
    code, said = vault.run("true")
    assert code == 1
    assert f"{vault.file} cannot be opened" in said
    assert vault.file.read_bytes() == sealed


def test_a_seal_that_fails_loses_nothing(vault: Vault) -> None:
    sealed = vault.file.read_bytes()
    password = vault.directory / "password"
    code, said = vault.shell(f"echo new > new && mv {password} {password}.away")
    assert code == 1
    assert "in memory, until the next run" in said
    assert vault.file.read_bytes() == sealed
    password.with_name("password.away").rename(password)
    assert vault.shell("cat new")[0] == 0
    assert vault.shell("cat new") == (0, "new\n")


@pytest.mark.parametrize("words", [[], ["file"], ["--wrong", "true"]])
def test_wrong_usage_is_told(words: list[str]) -> None:
    done = subprocess.run([ROOT / "deploy" / "sealed", *words], capture_output=True, text=True)
    assert (done.returncode, done.stderr.split()[0]) == (2, "usage:")
