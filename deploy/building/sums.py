"""SHA256SUMS of a directory, in the format of sha256sum(1)."""

from __future__ import annotations

import hashlib
from pathlib import Path

NAME = "SHA256SUMS"


def digest(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(directory: Path) -> Path:
    """Write the sums of all files of ``directory``, ordered by name."""
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.name != NAME)
    target = directory / NAME
    target.write_text("".join(f"{digest(path)}  {path.name}\n" for path in files))
    return target
