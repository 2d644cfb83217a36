"""What a program needs beside the product, declared beside its name and asked for before it starts anything."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from typing import NamedTuple

LACKS = "cannot start: "  #: the line that says what a program lacks has it after the program's name


class Need(NamedTuple):
    """Something that a program needs where ``when`` holds of its command line; ``missing`` answers "" or, in one line,
    what is missing and how to get it."""

    missing: Callable[[], str]
    when: Callable[[list[str]], bool] = lambda _: True


def lacking(needs: Iterable[Need], argv: Iterable[str] = ()) -> str:
    """What is missing, all of it in one line; "" when nothing is, or when only help is wanted."""
    words = list(argv)
    if {"-h", "--help"} & set(words):
        return ""
    return "; ".join(reason for need in needs if need.when(words) and (reason := need.missing()))


def saving(argv: list[str]) -> bool:
    """Whether results are to be kept."""
    return any(word.startswith("--save") for word in argv)


def plots(when: Callable[[list[str]], bool] = saving) -> Need:
    """The library that draws."""
    wanting = "plots need matplotlib: pip install 'shardpulse[experiments]'"
    return Need(lambda: "" if find_spec("matplotlib") else wanting, when)


def tool(name: str, package: str) -> Need:
    """A command of a Debian package."""
    return Need(lambda: "" if shutil.which(name) else f"there is no {name}: apt install {package}")


def browser() -> str | None:
    """The path of the browser."""
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


CHROMIUM = Need(lambda: "" if browser() else "there is no chromium: apt install chromium")
