"""What a program needs beside the product, asked for before it starts anything.

Each question answers "" or, in one line, what is missing and how to get it.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec

from acquisition.errors import UnavailableError


def require(*missing: str) -> None:
    """Raises UnavailableError (exit code 69) that names everything that is missing."""
    told = [reason for reason in missing if reason]
    if told:
        raise UnavailableError("; ".join(told))


def matplotlib() -> str:
    """Plots."""
    return "" if find_spec("matplotlib") else "plots need matplotlib: pip install 'shardpulse[experiments]'"


def tool(name: str, package: str) -> str:
    """A command of a Debian package."""
    return "" if shutil.which(name) else f"there is no {name}: apt install {package}"


def chromium() -> str:
    """A browser."""
    return "" if browser() else "there is no chromium: apt install chromium"


def browser() -> str | None:
    """The path of the browser."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
