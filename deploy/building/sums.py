"""SHA256SUMS of a directory, as sha256sum(1) writes and checks it."""

from __future__ import annotations

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(directory: Path) -> Path:
    """The sums of all files of ``directory``, in the order of their names."""
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name != NAME)
    target = directory / NAME
    target.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files))
    return target
