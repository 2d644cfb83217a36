"""Commands of iproute2 in the calling thread's network namespace."""

from __future__ import annotations

import shutil
import subprocess

from acquisition.errors import CannotCreateError

_SECONDS = 10.0
_PLACES = "/usr/sbin:/sbin:/usr/bin:/bin"  #: not all of these are in the PATH after su to root


def path_of(tool: str) -> str | None:
    """Path of a system tool; None if it is not installed."""
    return shutil.which(tool) or shutil.which(tool, path=_PLACES)


def run(*command: str) -> None:
    """Run ``ip …`` or ``tc …``. Raises CannotCreateError with its output if it fails or is not installed."""
    tool = path_of(command[0])
    if tool is None:
        raise CannotCreateError(f"{command[0]} is not installed: apt install iproute2")
    try:
        done = subprocess.run([tool, *command[1:]], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotCreateError(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        raise CannotCreateError(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")


def succeeds(*command: str) -> bool:
    """Whether the kernel and the installed tools can do this; nothing is printed if they cannot."""
    try:
        run(*command)
    except CannotCreateError:
        return False
    return True
