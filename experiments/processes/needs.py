"""Needs of a program beside the product, checked before it starts anything.

The command line is checked first.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from importlib.util import find_spec

from acquisition import extras
from acquisition.errors import UnavailableError

LACKS = "cannot start: "  #: follows the program's name in the line with the missing tools

#: A requirement of a program: returns "" or, in one line, what is missing and how to get it.
Need = Callable[[], str]


def lacking(*needs: Need) -> str:
    """Missing tools, all in one line; "" without any."""
    return "; ".join(filter(None, (missing() for missing in needs)))


def require(*needs: Need) -> None:
    """Raises UnavailableError naming the missing tools."""
    if missing := lacking(*needs):
        raise UnavailableError(LACKS + missing)


def plots() -> str:
    """The plotting library."""
    return "" if find_spec("matplotlib") else f"plots need matplotlib: {extras.how_to_install('experiments')}"


def found(name: str) -> str | None:
    """The path of a command, also searched in Debian's directories of servers, which are not on every user's path."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


def tool(name: str, package: str) -> Need:
    """A command of a Debian package."""
    return lambda: "" if found(name) else f"there is no {name}: apt install {package}"


def package(name: str, module: str) -> Need:
    """A package of the extra ``experiments``, by one of its modules."""
    return lambda: "" if find_spec(module) else f"there is no {name}: {extras.how_to_install('experiments')}"


def browser() -> str | None:
    """The path of the browser."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def chromium() -> str:
    """The browser."""
    return "" if browser() else "there is no chromium: apt install chromium"
