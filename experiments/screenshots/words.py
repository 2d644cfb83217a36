"""Words in the screenshot, kept beside it and compared with the code.

Rule, selection and placement, and the reasons of hot hosts and moves with ``N`` for every number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

#: Words by subject; see ``of``.
Words = dict[str, Any]


def stamp(picture: Path) -> Path:
    """File of the words of a picture."""
    return picture.with_suffix(".json")


def of(hot: Mapping[str, Any], moves: Mapping[str, Any]) -> Words:
    """The words of the documents of ``/v1/hot`` and ``/v1/moves``."""
    why = [each["why"] for each in moves["moves"]]
    of_hosts = [each["reason"] for each in hot["hot"]] + [each["host"]["reason"] for each in why]
    return {
        "rule": hot["rule"]["title"],
        "selection": moves["selection"],
        "placement": moves["placement"],
        "reasons": {
            "host": _plain(of_hosts),
            "vm": _plain(each["vm"]["reason"] for each in why),
            "destination": _plain(each["destination"]["reason"] for each in why),
        },
    }


def _plain(reasons: Iterable[str]) -> list[str]:
    """Each kind of reason once."""
    return sorted({re.sub(r"\d+(\.\d+)?(e[+-]\d+)?", "N", reason) for reason in reasons})
